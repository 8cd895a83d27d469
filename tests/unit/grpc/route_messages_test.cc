#include "adapters/grpc/route_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvrouter {
namespace {

using Holder = grpc::MessageHolder<v1::RouteRequest, v1::RouteResponse>;

TEST(RouteMessagesTest, KeptMessagesComeBackEmpty) {
  RouteMessages messages;
  Holder* const first = messages.AllocateMessages();
  first->request()->set_request_id("r");
  first->request()->mutable_token_ids()->mutable_ids()->Resize(1000, 7);
  first->response()->set_request_id("r");
  for (int i = 0; i < 8; ++i) first->response()->add_candidates()->mutable_target();
  first->Release();
  EXPECT_EQ(messages.KeptCount(), 1u);

  Holder* const second = messages.AllocateMessages();
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->request()->ByteSizeLong(), 0u);
  EXPECT_EQ(second->response()->ByteSizeLong(), 0u);
  EXPECT_EQ(messages.KeptCount(), 0u);
  second->Release();
}

TEST(RouteMessagesTest, PromptsAreNotKept) {
  RouteMessages messages;
  Holder* const holder = messages.AllocateMessages();
  const size_t empty_bytes = holder->request()->SpaceUsedLong();
  holder->request()->mutable_token_ids()->mutable_ids()->Resize(1 << 20, 7);
  holder->Release();
  EXPECT_EQ(messages.AllocateMessages(), holder);
  EXPECT_EQ(holder->request()->SpaceUsedLong(), empty_bytes);
  holder->Release();
}

// Fields and lists outside the prompt's own message: cleared, they would keep their memory.
TEST(RouteMessagesTest, NothingElseOfALargeRequestIsKept) {
  RouteMessages messages;
  Holder* const holder = messages.AllocateMessages();
  const size_t empty_bytes = holder->request()->SpaceUsedLong();
  v1::RouteRequest* const request = holder->request();
  request->set_request_id(std::string(1 << 20, 'r'));
  for (int block = 0; block < 1000; ++block) {
    request->add_block_items()->mutable_item_hashes()->Resize(100, 7);
    request->add_excluded();
  }
  request->mutable_allowed_worker_ids()->mutable_worker_ids()->Resize(1 << 20, 7);
  holder->Release();
  EXPECT_EQ(messages.AllocateMessages(), holder);
  EXPECT_EQ(holder->request()->SpaceUsedLong(), empty_bytes);
  holder->Release();
}

TEST(RouteMessagesTest, NoMoreThanTheBoundAreKept) {
  RouteMessages messages;
  std::vector<Holder*> running;
  for (size_t i = 0; i < 2 * RouteMessages::kMaxKept; ++i) {
    running.push_back(messages.AllocateMessages());
  }
  for (Holder* holder : running) holder->Release();
  EXPECT_EQ(messages.KeptCount(), RouteMessages::kMaxKept);
}

}  // namespace
}  // namespace kvrouter
