#include "service/worker_signs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

WorkerSpec AWorker(uint64_t id, uint64_t incarnation = 1) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.incarnation = Incarnation{incarnation};
  return spec;
}

WorkerSigns Only(WorkerSign sign) {
  WorkerSigns signs{};
  SignOf(signs, sign) = true;
  return signs;
}

TEST(WorkerSignBoardTest, SignsAreThoseOfOneLife) {
  WorkerSignBoard board;
  board.Put(WorkerId{1}, Incarnation{1}, Only(WorkerSign::kBlockSize));
  EXPECT_THAT(NamesOf(board.Of(AWorker(1))), ElementsAre("block_size"));
  EXPECT_THAT(NamesOf(board.Of(AWorker(1, 2))), IsEmpty());
  EXPECT_THAT(NamesOf(board.Of(AWorker(2))), IsEmpty());
  board.Put(WorkerId{1}, Incarnation{1}, {});
  EXPECT_THAT(NamesOf(board.Of(AWorker(1))), IsEmpty());
}

TEST(WorkerSignBoardTest, WhoIsNotKeptIsForgotten) {
  WorkerSignBoard board;
  board.Put(WorkerId{1}, Incarnation{1}, Only(WorkerSign::kUnreachable));
  board.Put(WorkerId{2}, Incarnation{1}, Only(WorkerSign::kUnreachable));
  board.Keep({AWorker(2)});
  EXPECT_THAT(NamesOf(board.Of(AWorker(1))), IsEmpty());
  EXPECT_THAT(NamesOf(board.Of(AWorker(2))), ElementsAre("unreachable"));
  board.Keep({AWorker(2, 3)});
  EXPECT_THAT(NamesOf(board.Of(AWorker(2))), IsEmpty());
}

TEST(WorkerSignBoardTest, MissingReplayIsSeenInTheRecordAlone) {
  WorkerSignBoard board;
  WorkerSpec spec = AWorker(1);
  spec.events[0] = {.live = "tcp://a:1", .replay = "tcp://a:2"};
  EXPECT_THAT(NamesOf(board.Of(spec)), IsEmpty());
  spec.events[1] = {.live = "tcp://a:3", .replay = ""};
  EXPECT_THAT(NamesOf(board.Of(spec)), ElementsAre("replay_missing"));
  board.Put(WorkerId{1}, Incarnation{1}, Only(WorkerSign::kPrefixCachingOff));
  EXPECT_THAT(NamesOf(board.Of(spec)), ElementsAre("prefix_caching_off", "replay_missing"));
  spec.events[1] = {};
  EXPECT_THAT(NamesOf(board.Of(spec)), ElementsAre("prefix_caching_off"));
}

TEST(WorkerSignBoardTest, WithoutEventsEndpointsAreIgnoredAndTheirAbsenceIsNoSign) {
  WorkerSignBoard board(/*uses_events=*/false);
  WorkerSpec spec = AWorker(1);
  board.Put(WorkerId{1}, Incarnation{1}, Only(WorkerSign::kSilentPublisher));
  EXPECT_THAT(NamesOf(board.Of(spec)), IsEmpty());
  spec.events[0] = {.live = "tcp://a:1", .replay = ""};
  EXPECT_THAT(NamesOf(board.Of(spec)), ElementsAre("events_ignored"));
}

}  // namespace
}  // namespace kvrouter
