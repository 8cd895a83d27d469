// Names that are read as well as written: by files, APIs, annotations and other routers.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>

#include "kvrouter/events.h"
#include "kvrouter/worker.h"

namespace kvrouter {
namespace {

TEST(NamesTest, EveryRoleIsReadBackFromItsNameAndNamedWhereAnErrorSaysWhatIsWanted) {
  std::set<std::string_view> names;
  for (const WorkerRole role :
       {WorkerRole::kAggregated, WorkerRole::kPrefill, WorkerRole::kDecode}) {
    const std::string_view name = WorkerRoleName(role);
    EXPECT_EQ(WorkerRoleOf(name), role) << name;
    EXPECT_NE(kWorkerRolesWanted.find(name), std::string_view::npos) << name;
    names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"aggregated", "decode", "prefill"}));
}

TEST(NamesTest, EveryKvRoleIsReadBackFromItsNameAndNamedWhereAnErrorSaysWhatIsWanted) {
  std::set<std::string_view> names;
  for (const KvRole role : {KvRole::kNone, KvRole::kProducer, KvRole::kConsumer, KvRole::kBoth}) {
    const std::string_view name = KvRoleName(role);
    EXPECT_EQ(KvRoleOf(name), role) << name;
    EXPECT_NE(kKvRolesWanted.find(name), std::string_view::npos) << name;
    names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"both", "consumer", "none", "producer"}));
}

TEST(NamesTest, EveryTierIsReadBackFromItsName) {
  std::set<std::string_view> names;
  for (int tier = 0; tier < kStorageTierCount; ++tier) {
    const std::string_view name = TierName(static_cast<StorageTier>(tier));
    EXPECT_EQ(TierOfName(name), static_cast<StorageTier>(tier)) << name;
    names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"device", "disk", "external", "host_pinned"}));
}

TEST(NamesTest, OtherWordsNameNothing) {
  for (const std::string_view word : {"", "Prefill", "prefill ", "pre", "unknown", "encode", "0"}) {
    EXPECT_EQ(WorkerRoleOf(word), std::nullopt) << word;
    EXPECT_EQ(KvRoleOf(word), std::nullopt) << word;
    EXPECT_EQ(TierOfName(word), std::nullopt) << word;
  }
}

}  // namespace
}  // namespace kvrouter
