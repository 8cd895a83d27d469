#ifndef KVROUTER_DISPATCH_ENGINE_LEG_H_
#define KVROUTER_DISPATCH_ENGINE_LEG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dispatch/dispatch_observer.h"
#include "dispatch/engine_link.h"
#include "kvrouter/plan.h"
#include "kvrouter/types.h"

namespace kvrouter {

// A producer's handshake on its way to the consumer.
struct HeldHandshake {
  std::string params;
  LegTarget producer;
  // The producer had finished by then, so its lease runs from before.
  MonotonicTime since{};
  std::chrono::nanoseconds took{};  // the producer's leg
  bool reported = false;            // to the router, as one that will be used
};

// A leg that is out.
struct EngineLeg {
  uint32_t number = 0;  // what comes for another one is void
  LegKind kind = LegKind::kServe;
  LegTarget where;
  bool with_handshake = false;
  // The same, in case the leg is sent again for another reason (usage asked for and refused).
  std::optional<HeldHandshake> handshake;
  MonotonicTime sent_at{};
  MonotonicTime head_at{};
  std::shared_ptr<EngineExchange> exchange;
  std::function<void()> cancel_timer;  // of the leg's own time; empty: none
  // Of a producer's answer, which is wanted whole.
  int status = 0;
  HeaderList headers;
  std::string body;
  bool too_long = false;
};

inline bool IsProducer(LegKind kind) {
  return kind == LegKind::kPrefill || kind == LegKind::kKvSource;
}

// What the end of an exchange means; `status` 0: no head came.
LegResult LegResultOf(EngineEnd end, int status);
// What a client is told about it: 502, 503 or 504.
int StatusForClient(LegResult result);
// Whether it speaks against the worker.
bool IsWorkersFault(LegResult result);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_ENGINE_LEG_H_
