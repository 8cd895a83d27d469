#ifndef KVROUTER_SIM_VIRTUAL_TRACE_BLOCKS_H_
#define KVROUTER_SIM_VIRTUAL_TRACE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvrouter/types.h"
#include "sim/trace/trace.h"

namespace kvrouter::sim {

// The two names of a trace's blocks: what the router hashes from the prompt's tokens, and what each
// engine calls them.
//
// Thread-compatible.
class TraceBlocks {
 public:
  // `trace` must outlive this.
  explicit TraceBlocks(const Trace& trace);

  const Trace& trace() const { return trace_; }

  // What block_hash.h makes of PromptTokens: the same on all workers. Each distinct block was
  // hashed once.
  std::vector<LocalBlockHash> LocalHashes(const TraceRow& row) const;
  LocalBlockHash LocalHash(uint32_t block_id) const { return local_hashes_.at(block_id); }

  // Different on each worker, as engines may seed theirs at random. Distinct for distinct
  // arguments.
  static EngineHash EngineHashOf(uint32_t worker, uint32_t block_id);
  static std::vector<EngineHash> EngineHashes(uint32_t worker, const TraceRow& row);

 private:
  const Trace& trace_;
  absl::flat_hash_map<uint32_t, LocalBlockHash> local_hashes_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_TRACE_BLOCKS_H_
