#ifndef KVROUTER_CORE_EXTERNAL_TIER_CACHE_H_
#define KVROUTER_CORE_EXTERNAL_TIER_CACHE_H_

#include <span>
#include <string_view>
#include <vector>

#include "core/partition_directory.h"
#include "kvrouter/shared_cache.h"
#include "kvrouter/types.h"

namespace kvrouter {

// The external tiers of a partition's workers taken as one store that all of them read: what any of
// them announced there is there for every other, as with a store that a fleet's connectors share.
// Thread-safe.
class ExternalTierCache final : public SharedCacheView {
 public:
  // `directory` outlives this object.
  explicit ExternalTierCache(const PartitionDirectory* directory) : directory_(directory) {}

  void FindHits(std::string_view model_name, std::string_view routing_group,
                std::span<const LocalBlockHash> local_hashes,
                std::span<const SequenceHash> /*sequence_hashes*/,
                std::vector<BlockRange>* hits) const override {
    hits->clear();
    const auto partition = directory_->Find(model_name, routing_group);
    if (partition) partition->index().FindTierHits(local_hashes, StorageTier::kExternal, hits);
  }

 private:
  const PartitionDirectory* const directory_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_EXTERNAL_TIER_CACHE_H_
