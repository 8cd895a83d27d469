#ifndef KVROUTER_TESTS_UNIT_SIM_ENGINE_REQUESTS_H_
#define KVROUTER_TESTS_UNIT_SIM_ENGINE_REQUESTS_H_

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "sim/model/engine_model.h"

namespace kvrouter::sim {

inline constexpr MonotonicTime kForEver = MonotonicTime::max();

inline MonotonicTime Ms(int64_t ms) { return std::chrono::milliseconds(ms); }

// A request of `isl_tokens`, blocks of 4 tokens named by the first ids of `chain`.
inline EngineRequest ARequest(uint64_t id, uint64_t isl_tokens, uint64_t osl_tokens,
                              const std::vector<uint64_t>& chain) {
  EngineRequest request{
      .id = id, .isl_tokens = isl_tokens, .osl_tokens = osl_tokens, .block_hashes = {}};
  for (uint64_t i = 0; i < isl_tokens / 4; ++i)
    request.block_hashes.push_back(EngineHash{chain.at(i)});
  return request;
}

// "at_ms what id ..." per event, so that a test can show a whole history.
inline std::string Describe(const EngineEvent& event) {
  struct Text {
    std::string operator()(const PrefillStarted& e) const {
      const std::string loads =
          e.external_tokens > 0 ? fmt::format(" load {}", e.external_tokens) : "";
      return fmt::format("prefill {} hit {}{}", e.id, e.hit_blocks, loads);
    }
    std::string operator()(const ExternalLoaded& e) const {
      return fmt::format("loaded {} {}", e.id, e.blocks);
    }
    std::string operator()(const BlocksStored& e) const {
      return fmt::format("stored {} [{},{})", e.id, e.first_block, e.first_block + e.count);
    }
    std::string operator()(const BlocksRemoved& e) const {
      std::string text = "removed";
      for (const EngineHash hash : e.hashes)
        text += fmt::format(" {}", static_cast<uint64_t>(hash));
      return text;
    }
    std::string operator()(const FirstToken& e) const { return fmt::format("first {}", e.id); }
    std::string operator()(const TokensGenerated& e) const {
      return fmt::format("tokens {} {}", e.id, e.output_tokens);
    }
    std::string operator()(const RequestFinished& e) const {
      return fmt::format("finished {}", e.id);
    }
  };
  return fmt::format("{}: {}", static_cast<double>(event.at.count()) / 1e6,
                     std::visit(Text{}, event.what));
}

inline std::vector<std::string> Advance(EngineModel& engine, MonotonicTime now) {
  std::vector<EngineEvent> events;
  engine.AdvanceTo(now, &events);
  std::vector<std::string> texts;
  for (const EngineEvent& event : events) texts.push_back(Describe(event));
  return texts;
}

}  // namespace kvrouter::sim

#endif  // KVROUTER_TESTS_UNIT_SIM_ENGINE_REQUESTS_H_
