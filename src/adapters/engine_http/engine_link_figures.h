#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LINK_FIGURES_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LINK_FIGURES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "adapters/engine_http/http_engine_link.h"

namespace kvrouter {

// EngineLinkCounters as all lanes count them. Thread-safe.
struct EngineLinkFigures {
  using Count = std::atomic<uint64_t>;

  Count calls{0}, cancelled{0}, retried{0}, exchanges{0}, waiting{0};
  std::array<Count, kEngineEndCount> ends{};
  Count connections_opened{0}, connections_reused{0}, connections{0}, idle_connections{0};
  Count idle_timeouts{0}, idle_ended{0}, idle_surplus{0};
  Count sent_bytes{0}, received_bytes{0};
  Count names_asked{0}, names_failed{0};

  EngineLinkCounters Read() const;
};

inline void Count(std::atomic<uint64_t>* figure, uint64_t more = 1) {
  figure->fetch_add(more, std::memory_order_relaxed);
}
inline void Uncount(std::atomic<uint64_t>* figure) {
  figure->fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LINK_FIGURES_H_
