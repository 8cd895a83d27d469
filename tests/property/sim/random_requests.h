#ifndef KVROUTER_TESTS_PROPERTY_SIM_RANDOM_REQUESTS_H_
#define KVROUTER_TESTS_PROPERTY_SIM_RANDOM_REQUESTS_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "sim/model/engine_model.h"

namespace kvrouter::sim {

struct TimedRequest {
  MonotonicTime arrival{};
  EngineRequest request;
};

// Prompts that share prefixes: each one keeps a random head of an earlier prompt and goes on with
// fresh blocks. Arrivals come in bursts, some at the same time. Block size 4.
inline std::vector<TimedRequest> RandomRequests(std::mt19937_64& random, uint64_t count) {
  const auto below = [&random](uint64_t limit) { return random() % limit; };
  std::vector<std::vector<EngineHash>> chains{{}};
  std::vector<TimedRequest> requests;
  uint64_t next_hash = 1;
  MonotonicTime arrival{0};
  for (uint64_t id = 0; id < count; ++id) {
    std::vector<EngineHash> chain = chains[below(chains.size())];
    chain.resize(below(chain.size() + 1));
    for (uint64_t fresh = below(6); fresh > 0; --fresh) chain.push_back(EngineHash{next_hash++});
    chains.push_back(chain);
    if (below(3) > 0) arrival += std::chrono::milliseconds(below(25));
    const uint64_t isl_tokens = chain.size() * 4 + below(4);
    requests.push_back({.arrival = arrival,
                        .request = {.id = id,
                                    .isl_tokens = isl_tokens,
                                    .osl_tokens = below(12),
                                    .block_hashes = std::move(chain)}});
  }
  return requests;
}

}  // namespace kvrouter::sim

#endif  // KVROUTER_TESTS_PROPERTY_SIM_RANDOM_REQUESTS_H_
