#ifndef KVROUTER_CORE_DUMP_CURSOR_H_
#define KVROUTER_CORE_DUMP_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/index/target_dump.h"
#include "core/partition.h"
#include "kvrouter/router.h"

namespace kvrouter {

// The targets that the partition had when the dump began, one after the other and tier by tier,
// each as TargetDump reads it. A target that came later is left out;
// one that left meanwhile holds nothing.
//
// Thread-compatible.
class DumpCursor::Impl {
 public:
  explicit Impl(std::shared_ptr<const Partition> partition);

  // As DumpCursor.
  bool Next(std::vector<KvEvent>* events);
  const DumpCounts& counts() const { return counts_; }
  uint32_t block_size_tokens() const { return naming_.block_size_tokens; }

 private:
  void Append(const TargetLoad& load, std::vector<KvEvent>* events);
  void FinishTier();

  const std::shared_ptr<const Partition> partition_;
  const BlockNaming naming_;
  const std::vector<TargetLoad> targets_;
  size_t next_target_ = 0;                        // the one at hand, or the one to begin
  StorageTier next_tier_ = StorageTier::kDevice;  // of it
  std::optional<TargetDump> dump_;
  std::vector<Stored> step_;  // reused
  DumpCounts counts_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_DUMP_CURSOR_H_
