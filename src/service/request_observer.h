#ifndef KVROUTER_SERVICE_REQUEST_OBSERVER_H_
#define KVROUTER_SERVICE_REQUEST_OBSERVER_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "kvrouter/plan.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Whose request a report is about.
struct ServedBy {
  Target target;
  Incarnation incarnation{};
};

// How a leg of a live request ended.
struct EndedLeg {
  std::string_view request_id;
  LegKind kind = LegKind::kServe;
  ServedBy by;
  bool succeeded = true;
};

// Told what callers' reports on booked requests amount to, whatever door they came through
// (request_progress.h says when). Implemented by the metrics.
//
// Thread safety: called concurrently, never under a lock of the service. Must not block.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  virtual void OnFirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival) = 0;
  virtual void OnOutputBlock(const ServedBy& by, std::chrono::nanoseconds average_inter_token) = 0;
  // Freed by its caller, or with the caller's broken stream, having reported output. Not for
  // bookings that expired or left with their worker: nobody knows how their requests ended.
  virtual void OnEnd(const ServedBy& by, uint64_t output_tokens) = 0;

  virtual void OnLeg(const EndedLeg&) {}
  // The first token of a request whose kv_source leg was reported to have succeeded: `by` decodes
  // from blocks that it pulled.
  virtual void OnDecodingPulled(std::string_view, const ServedBy&) {}
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REQUEST_OBSERVER_H_
