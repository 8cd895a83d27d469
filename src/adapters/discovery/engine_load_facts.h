#ifndef KVROUTER_ADAPTERS_DISCOVERY_ENGINE_LOAD_FACTS_H_
#define KVROUTER_ADAPTERS_DISCOVERY_ENGINE_LOAD_FACTS_H_

#include <cstdint>
#include <map>
#include <string_view>

#include "kvrouter/worker.h"
#include "service/engine_loads.h"

namespace kvrouter {

// The load of the worker's ranks in what its engine prints on /metrics,
// by the names of vLLM and SGLang:
//
//   running   vllm:num_requests_running              sglang:num_running_reqs
//   waiting   vllm:num_requests_waiting              sglang:num_queue_reqs
//   used      kv_cache_usage_perc * total            sglang:num_used_tokens,
//             (older: gpu_cache_usage_perc)          else token_usage * total
//   total     vllm:cache_config_info                 sglang:max_total_num_tokens
//             (kv_cache_size_tokens, num_gpu_blocks)
//
// in blocks of the worker's size; total is the record's where the engine does not say. A rank is
// named by the label `engine` or `dp_rank`; without one, or with one number that is no rank of a
// worker that has one rank only, the figures are that rank's. Of several tensor-parallel processes
// the largest figure counts: each tells the same of one pool. Any bytes will do; ranks that are not
// the worker's, and figures that are no finite numbers >= 0, are left out.
std::map<uint32_t, EngineLoad> ReadEngineLoads(std::string_view exposition,
                                               const WorkerSpec& worker);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_ENGINE_LOAD_FACTS_H_
