#ifndef KVROUTER_ADAPTERS_DISCOVERY_ENGINE_FACTS_H_
#define KVROUTER_ADAPTERS_DISCOVERY_ENGINE_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter {

// What an engine says of itself over HTTP, in vLLM's way. Absent: it did not say, or not in a way
// we know; names and label sets change from version to version, so nothing is required.
struct EngineFacts {
  bool answers = false;             // GET /health: 200
  std::vector<std::string> models;  // GET /v1/models: those that are no adapters, in its order
  // GET /metrics, vllm:cache_config_info. The ranks of one server agree, or nothing is said.
  std::optional<uint32_t> block_size_tokens;
  std::optional<uint64_t> total_kv_blocks;  // per rank
  std::optional<bool> prefix_caching;
  // Over all ranks and so far: prompt tokens looked up in the cache, those found, and requests that
  // ended in whatever way (vllm:prefix_cache_queries_total, _hits_total,
  // vllm:request_success_total).
  std::optional<double> queried_tokens;
  std::optional<double> hit_tokens;
  std::optional<double> finished_requests;
  double live_requests = 0;  // vllm:num_requests_running and _waiting: now
};

// Each adds to `facts` what the body says. Any bytes will do.
void ReadModels(std::string_view json, EngineFacts* facts);
void ReadEngineMetrics(std::string_view exposition, EngineFacts* facts);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_ENGINE_FACTS_H_
