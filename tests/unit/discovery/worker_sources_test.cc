#include "adapters/discovery/worker_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "discovery_builders.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;

constexpr WorkerSource kConfig = WorkerSource::kConfig;
constexpr WorkerSource kFile = WorkerSource::kFile;
constexpr WorkerSource kKubernetes = WorkerSource::kKubernetes;

// Writes down what the event sources are told.
class Diary : public WorkerListener {
 public:
  void OnWorkerChanged(const WorkerSpec& spec) override {
    lines.push_back("changed " + std::to_string(static_cast<uint64_t>(spec.id)));
  }
  void OnWorkerRemoved(WorkerId id, Incarnation) override {
    lines.push_back("removed " + std::to_string(static_cast<uint64_t>(id)));
  }
  std::vector<std::string> lines;
};

TEST(WorkerSourcesTest, SetIsRegisteredAndReplacedAsAWhole) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(2), ADeclared(3)}).ok());
  EXPECT_FALSE(f.Has(1));
  EXPECT_TRUE(f.Has(2));
  EXPECT_TRUE(f.Has(3));
  EXPECT_EQ(f.sources.Read(kFile).registered, 2u);
}

TEST(WorkerSourcesTest, ReplacedFleetIsNeverEmpty) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  Diary diary;
  f.registry.AddListener(&diary);
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(3), ADeclared(4)}).ok());
  EXPECT_THAT(diary.lines, ElementsAre("changed 3", "changed 4", "removed 1", "removed 2"));
}

TEST(WorkerSourcesTest, UnchangedWorkersAreNotTouched) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  Diary diary;
  f.registry.AddListener(&diary);
  DeclaredWorker moved = ADeclared(2);
  moved.spec.address = "http://10.9.9.9:8000";
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), moved}).ok());
  EXPECT_THAT(diary.lines, ElementsAre("changed 2"));
  EXPECT_EQ(f.Get(2).address, "http://10.9.9.9:8000");
}

TEST(WorkerSourcesTest, SourceRemovesOnlyWhatItAdded) {
  SourcesFixture f;
  ASSERT_TRUE(f.registry.Register(ADeclared(7).spec).ok());
  ASSERT_TRUE(f.sources.Replace(kConfig, {ADeclared(1)}).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(2)}).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {}).ok());
  EXPECT_TRUE(f.Has(7));
  EXPECT_TRUE(f.Has(1));
  EXPECT_FALSE(f.Has(2));
}

TEST(WorkerSourcesTest, StrongerSourceWinsAndTheWeakerTakesOver) {
  SourcesFixture f;
  DeclaredWorker weaker = ADeclared(1);
  weaker.spec.address = "http://weaker:1";
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {weaker}).ok());
  ASSERT_TRUE(f.sources.Replace(kConfig, {ADeclared(1)}).ok());
  EXPECT_EQ(f.Get(1).address, ADeclared(1).spec.address);
  EXPECT_EQ(f.sources.Read(kKubernetes).conflicting, 1u);
  EXPECT_EQ(f.sources.Read(kKubernetes).conflicts_total, 1u);
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {weaker}).ok());
  EXPECT_EQ(f.sources.Read(kKubernetes).conflicts_total, 1u) << "counted once, not per look";

  Diary diary;
  f.registry.AddListener(&diary);
  ASSERT_TRUE(f.sources.Replace(kConfig, {}).ok());
  EXPECT_EQ(f.Get(1).address, "http://weaker:1");
  EXPECT_THAT(diary.lines, ElementsAre("changed 1")) << "without a moment of absence";
}

TEST(WorkerSourcesTest, CallersWorkerIsAConflictUntilTheCallerRemovesIt) {
  SourcesFixture f;
  WorkerSpec callers = ADeclared(1).spec;
  callers.address = "http://caller:1";
  ASSERT_TRUE(f.registry.Register(callers).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  EXPECT_EQ(f.Get(1).address, "http://caller:1");
  EXPECT_EQ(f.sources.Read(kFile).conflicting, 1u);
  EXPECT_EQ(f.sources.Read(kFile).registered, 1u);
  f.sources.Retry();
  EXPECT_EQ(f.sources.Read(kFile).conflicts_total, 1u);

  ASSERT_TRUE(f.registry.Remove(WorkerId{1}).ok());
  f.sources.Retry();
  EXPECT_EQ(f.Get(1).address, ADeclared(1).spec.address);
  EXPECT_EQ(f.sources.Read(kFile).conflicting, 0u);
}

TEST(WorkerSourcesTest, CallersRemovalHoldsUntilTheWishChanges) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1)}).ok());
  ASSERT_TRUE(f.registry.Remove(WorkerId{1}).ok());
  f.sources.Retry();
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1)}).ok());
  EXPECT_FALSE(f.Has(1));
  EXPECT_EQ(f.sources.Read(kFile).removed_by_callers, 1u);
  DeclaredWorker moved = ADeclared(1);
  moved.spec.address = "http://10.9.9.9:8000";
  ASSERT_TRUE(f.sources.Replace(kFile, {moved}).ok());
  EXPECT_TRUE(f.Has(1));
}

TEST(WorkerSourcesTest, CallersChangeHoldsUntilTheWishChanges) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1)}).ok());
  WorkerPatch patch;
  patch.address = "http://patched:1";
  ASSERT_TRUE(f.registry.Update(WorkerId{1}, patch).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  EXPECT_EQ(f.Get(1).address, "http://patched:1");
}

TEST(WorkerSourcesTest, SourceUndrainsWhatItDrained) {
  SourcesFixture f;
  DeclaredWorker not_ready = ADeclared(1, "a");
  not_ready.spec.draining = true;
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {not_ready}).ok());
  EXPECT_TRUE(f.Get(1).draining);
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "a")}).ok());
  EXPECT_FALSE(f.Get(1).draining);
}

TEST(WorkerSourcesTest, CallersDrainOutlivesTheSourcesOwn) {
  SourcesFixture f;
  DeclaredWorker not_ready = ADeclared(1, "a");
  not_ready.spec.draining = true;
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {not_ready}).ok());
  ASSERT_TRUE(f.registry.Drain(WorkerId{1}).ok());
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "a")}).ok());
  EXPECT_TRUE(f.Get(1).draining);
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "b")}).ok());
  EXPECT_FALSE(f.Get(1).draining) << "the drain spoke of the process before";
}

TEST(WorkerSourcesTest, NewLifeIsANewIncarnationWithoutAGap) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "uid-a/0")}).ok());
  const Incarnation before = f.Get(1).incarnation;
  Diary diary;
  f.registry.AddListener(&diary);
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "uid-b/0")}).ok());
  EXPECT_GT(f.Get(1).incarnation, before);
  EXPECT_THAT(diary.lines, ElementsAre("changed 1"));
}

TEST(WorkerSourcesTest, RefusedWorkerIsTriedAgainWhenTheRegistryChanges) {
  SourcesFixture f;
  ASSERT_TRUE(f.registry.Register(ADeclared(9).spec).ok());
  DeclaredWorker other_size = ADeclared(1);
  other_size.spec.block_size_tokens = 32;
  const absl::Status refused = f.sources.Replace(kFile, {other_size});
  EXPECT_EQ(ErrorReasonOf(refused), ErrorReason::kBlockSizeConflict);
  f.sources.Retry();
  EXPECT_EQ(f.sources.Read(kFile).refusals_total, 1u);
  EXPECT_EQ(f.sources.Read(kFile).refused, 1u);

  ASSERT_TRUE(f.registry.Remove(WorkerId{9}).ok());
  f.sources.Retry();
  EXPECT_EQ(f.Get(1).block_size_tokens, 32u);
  EXPECT_EQ(f.sources.Read(kFile).refused, 0u);
}

TEST(WorkerSourcesTest, FleetOfAnotherBlockSizeReplacesTheOldOne) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  DeclaredWorker three = ADeclared(3);
  three.spec.block_size_tokens = 32;
  ASSERT_TRUE(f.sources.Replace(kFile, {three}).ok());
  EXPECT_EQ(f.registry.List().size(), 1u);
  EXPECT_EQ(f.Get(3).block_size_tokens, 32u);
}

TEST(WorkerSourcesTest, RefusedChangeKeepsTheRecordOfALivingProcess) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1), ADeclared(2)}).ok());
  DeclaredWorker other_size = ADeclared(1);
  other_size.spec.block_size_tokens = 32;
  EXPECT_FALSE(f.sources.Replace(kFile, {other_size, ADeclared(2)}).ok());
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
}

TEST(WorkerSourcesTest, RefusedNewLifeDoesNotKeepTheDeadProcess) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kKubernetes, {ADeclared(1, "a"), ADeclared(2, "a")}).ok());
  DeclaredWorker other_size = ADeclared(1, "b");
  other_size.spec.block_size_tokens = 32;
  EXPECT_FALSE(f.sources.Replace(kKubernetes, {other_size, ADeclared(2, "a")}).ok());
  EXPECT_FALSE(f.Has(1));
}

TEST(WorkerSourcesTest, OneIdTwiceChangesNothing) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1)}).ok());
  EXPECT_FALSE(f.sources.Replace(kFile, {ADeclared(2), ADeclared(2)}).ok());
  EXPECT_TRUE(f.Has(1));
}

TEST(DiscoveryJournalTest, LinesBeyondTheBoundAreCounted) {
  DiscoveryJournal journal;
  for (size_t i = 0; i < DiscoveryJournal::kMaxLines + 3; ++i)
    journal.Write({.warning = false, .event = "x", .fields = {}});
  EXPECT_EQ(journal.Take().size(), DiscoveryJournal::kMaxLines);
  EXPECT_EQ(journal.DroppedLines(), 3u);
}

DeclaredWorker AnOpenOne(uint64_t id, std::string life = "") {
  DeclaredWorker worker = ADeclared(id, std::move(life));
  worker.spec.block_size_tokens = 0;
  worker.spec.model_name.clear();
  return worker;
}

constexpr auto kSize = [](uint32_t tokens) { return LearnedFacts{.block_size_tokens = tokens}; };

TEST(WorkerSourcesTest, WorkerWaitsForWhatNobodyDeclared) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1), ADeclared(2)}).ok());
  EXPECT_FALSE(f.Has(1));
  EXPECT_TRUE(f.Has(2));
  EXPECT_EQ(f.sources.Read(kFile).incomplete, 1u);
  EXPECT_THAT(f.sources.Incomplete(),
              ElementsAre(std::pair(WorkerId{1}, std::string("http://10.0.0.1:8000"))));
  f.sources.Learn(WorkerId{1}, kSize(16));
  EXPECT_FALSE(f.Has(1)) << "the model is not known yet";
  f.sources.Learn(WorkerId{1}, {.model_name = "m", .total_kv_blocks = 1000});
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
  EXPECT_EQ(f.Get(1).model_name, "m");
  EXPECT_EQ(f.Get(1).total_kv_blocks, 1000u);
  EXPECT_EQ(f.sources.Read(kFile).incomplete, 0u);
  EXPECT_TRUE(f.sources.Incomplete().empty());
}

TEST(WorkerSourcesTest, WhatIsDeclaredIsNotLearned) {
  SourcesFixture f;
  DeclaredWorker declared = ADeclared(1);
  declared.spec.model_name = "m";
  ASSERT_TRUE(f.sources.Replace(kFile, {declared}).ok());
  Diary diary;
  f.registry.AddListener(&diary);
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 64, .model_name = "other"});
  f.sources.Learn(WorkerId{9}, kSize(64));
  EXPECT_TRUE(diary.lines.empty());
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 64, .total_kv_blocks = 500});
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 64, .total_kv_blocks = 500});
  EXPECT_THAT(diary.lines, ElementsAre("changed 1"));
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
  EXPECT_EQ(f.Get(1).total_kv_blocks, 500u);
}

TEST(WorkerSourcesTest, WhatWasLearnedHoldsForTheNextProcessUntilItSaysSomethingElse) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1, "a")}).ok());
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 16, .model_name = "m"});
  const Incarnation first = f.Get(1).incarnation;
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1, "b")}).ok());
  EXPECT_GT(f.Get(1).incarnation, first);
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
  f.sources.Learn(WorkerId{1}, kSize(32));
  EXPECT_EQ(f.Get(1).block_size_tokens, 32u);
  EXPECT_EQ(f.Get(1).model_name, "m");
}

TEST(WorkerSourcesTest, WhatIsNoLongerDeclaredStaysAsItWasUntilItIsLearned) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {ADeclared(1)}).ok());
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1)}).ok());
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
  EXPECT_EQ(f.Get(1).model_name, "default");
  f.sources.Learn(WorkerId{1}, kSize(32));
  EXPECT_EQ(f.Get(1).block_size_tokens, 32u);
}

TEST(WorkerSourcesTest, LearnedSizeThatThePartitionRefusesIsTriedAgain) {
  SourcesFixture f;
  DeclaredWorker open = AnOpenOne(1);
  open.spec.model_name = "default";
  ASSERT_TRUE(f.sources.Replace(kFile, {open, ADeclared(2)}).ok());
  f.sources.Learn(WorkerId{1}, kSize(64));
  EXPECT_FALSE(f.Has(1));
  EXPECT_EQ(f.sources.Read(kFile).refused, 1u);
  ASSERT_TRUE(f.registry.Remove(WorkerId{2}).ok());
  f.sources.Retry();
  EXPECT_EQ(f.Get(1).block_size_tokens, 64u);
}

TEST(WorkerSourcesTest, WorkerThatACallerRemovedDoesNotComeBackByLearning) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1)}).ok());
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 16, .model_name = "m"});
  ASSERT_TRUE(f.registry.Remove(WorkerId{1}).ok());
  f.sources.Retry();
  f.sources.Learn(WorkerId{1}, kSize(32));
  f.sources.Retry();
  EXPECT_FALSE(f.Has(1));
  EXPECT_EQ(f.sources.Read(kFile).removed_by_callers, 1u);
}

TEST(WorkerSourcesTest, CallerWhoComesFirstKeepsTheWorkerThatWaits) {
  SourcesFixture f;
  ASSERT_TRUE(f.sources.Replace(kFile, {AnOpenOne(1)}).ok());
  ASSERT_TRUE(f.registry.Register(ADeclared(1).spec).ok());
  f.sources.Learn(WorkerId{1}, {.block_size_tokens = 32, .model_name = "m"});
  EXPECT_EQ(f.Get(1).block_size_tokens, 16u);
  EXPECT_EQ(f.sources.Read(kFile).conflicting, 1u);
}

}  // namespace
}  // namespace kvrouter
