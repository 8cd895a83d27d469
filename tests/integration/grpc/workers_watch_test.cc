// Workers.Watch over a real socket.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "integration/grpc/server_fixture.h"
#include "kvrouter/v1/workers.grpc.pb.h"

namespace kvrouter {
namespace {

class WorkersWatchTest : public GrpcServerFixture {
 protected:
  struct Watch {
    Watch(v1::Workers::Stub* stub, const v1::WatchRequest& request = {}) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
      reader = stub->Watch(&context, request);
    }
    v1::WatchResponse Next() {
      v1::WatchResponse response;
      EXPECT_TRUE(reader->Read(&response));
      return response;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchResponse>> reader;
  };

  void SetUp() override {
    GrpcServerFixture::SetUp();
    stub_ = v1::Workers::NewStub(Channel());
  }

  void Register(uint64_t id, const std::string& model = "default") {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.model_name = model;
    spec.address = "http://10.0.0.1:8000";
    spec.block_size_tokens = 16;
    ASSERT_TRUE(registry_.Register(spec).ok());
  }

  std::unique_ptr<v1::Workers::Stub> stub_;
};

TEST_F(WorkersWatchTest, TheSetComesFirstAlsoWhenEmptyAndChangesFollow) {
  Watch watch(stub_.get());
  const v1::WatchResponse empty = watch.Next();
  EXPECT_TRUE(empty.snapshot());
  EXPECT_EQ(empty.workers_size(), 0);
  Register(1);
  const v1::WatchResponse added = watch.Next();
  EXPECT_FALSE(added.snapshot());
  ASSERT_EQ(added.workers_size(), 1);
  EXPECT_EQ(added.workers(0).spec().worker_id(), 1u);
  ASSERT_TRUE(registry_.Drain(WorkerId{1}).ok());
  const v1::WatchResponse drained = watch.Next();
  ASSERT_EQ(drained.workers_size(), 1);
  EXPECT_TRUE(drained.workers(0).draining());
  ASSERT_TRUE(registry_.Remove(WorkerId{1}).ok());
  const v1::WatchResponse removed = watch.Next();
  EXPECT_EQ(removed.workers_size(), 0);
  ASSERT_EQ(removed.removed_worker_ids_size(), 1);
  EXPECT_EQ(removed.removed_worker_ids(0), 1u);
}

TEST_F(WorkersWatchTest, AFilteredWatchHearsOfItsModelOnly) {
  Register(1, "a");
  Register(2, "b");
  v1::WatchRequest request;
  request.set_model_name("a");
  Watch watch(stub_.get(), request);
  const v1::WatchResponse snapshot = watch.Next();
  ASSERT_EQ(snapshot.workers_size(), 1);
  EXPECT_EQ(snapshot.workers(0).spec().worker_id(), 1u);
  Register(3, "b");
  ASSERT_TRUE(registry_.Remove(WorkerId{2}).ok());
  Register(1, "b");  // leaves the model
  const v1::WatchResponse moved = watch.Next();
  EXPECT_EQ(moved.workers_size(), 0);
  ASSERT_EQ(moved.removed_worker_ids_size(), 1);
  EXPECT_EQ(moved.removed_worker_ids(0), 1u);
}

TEST_F(WorkersWatchTest, WhoeverAppliesTheMessagesEndsWithTheSet) {
  Watch watch(stub_.get());
  watch.Next();
  // Many changes while nobody reads: what is told in between may be skipped, the outcome may not.
  for (uint64_t round = 0; round < 50; ++round) {
    for (uint64_t id = 1; id <= 40; ++id) Register(id);
    for (uint64_t id = 1 + round % 2; id <= 40; id += 2) {
      ASSERT_TRUE(registry_.Remove(WorkerId{id}).ok());
    }
  }
  Register(1000);
  std::map<uint64_t, v1::Worker> copy;
  while (!copy.contains(1000)) {
    const v1::WatchResponse change = watch.Next();
    ASSERT_FALSE(HasFailure());
    for (const v1::Worker& worker : change.workers()) copy[worker.spec().worker_id()] = worker;
    for (const uint64_t id : change.removed_worker_ids()) copy.erase(id);
  }
  const std::vector<WorkerSpec> set = registry_.List();
  ASSERT_EQ(copy.size(), set.size());
  for (const WorkerSpec& spec : set) {
    const auto it = copy.find(static_cast<uint64_t>(spec.id));
    ASSERT_NE(it, copy.end());
    EXPECT_EQ(it->second.spec().incarnation(), static_cast<uint64_t>(spec.incarnation));
  }
}

TEST_F(WorkersWatchTest, AStoppingServerDoesNotWaitForItsWatchers) {
  Watch watch(stub_.get());
  watch.Next();
  const auto begin = std::chrono::steady_clock::now();
  server_.Stop(std::chrono::seconds(20));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  v1::WatchResponse response;
  EXPECT_FALSE(watch.reader->Read(&response));
  EXPECT_EQ(watch.reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(watch.context), ErrorReason::kShuttingDown);
}

TEST_F(WorkersWatchTest, WatchersMayLeaveAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    Watch watch(stub_.get());
    if (i % 2 == 0) watch.Next();
    if (i % 5 == 0) Register(static_cast<uint64_t>(i + 1));
    watch.context.TryCancel();
    watch.reader->Finish();
  }
  Watch last(stub_.get());
  EXPECT_EQ(last.Next().workers_size(), 10);
}

}  // namespace
}  // namespace kvrouter
