#ifndef KVROUTER_DAEMON_PLAN_LOG_H_
#define KVROUTER_DAEMON_PLAN_LOG_H_

#include "kvrouter/decision_sink.h"
#include "service/request_observer.h"

namespace kvrouter {

// Writes the log lines of gate and migration planner, and passes every decision on. At debug: what
// the gate decided of each booking, and why. At info: each planned migration, dry or not, with the
// marker KVMIGRATE_SPILL, which scripts of the fork's operators count.
//
// Thread safety: thread-safe.
class PlanLog final : public DecisionSink {
 public:
  // `next` outlives it.
  explicit PlanLog(DecisionSink* next) : next_(next) {}

  void OnDecision(const RouteRequest& request, const RouteDecision& decision) override;

 private:
  DecisionSink* const next_;
};

// Writes what callers report of migrations, at info, with the other markers of those scripts, and
// passes every report on:
//
//   KVMIGRATE: handshake obtained            the kv_source leg succeeded
//   KVMIGRATE: decoding on target            then the first token came
//   KVMIGRATE: producer dispatch failed      the kv_source leg failed
//
// Thread safety: thread-safe.
class MigrationLog final : public RequestObserver {
 public:
  // `next` outlives it.
  explicit MigrationLog(RequestObserver* next) : next_(next) {}

  void OnFirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival) override {
    next_->OnFirstToken(by, since_arrival);
  }
  void OnOutputBlock(const ServedBy& by, std::chrono::nanoseconds average_inter_token) override {
    next_->OnOutputBlock(by, average_inter_token);
  }
  void OnEnd(const ServedBy& by, uint64_t output_tokens) override {
    next_->OnEnd(by, output_tokens);
  }
  void OnLeg(const EndedLeg& leg) override;
  void OnDecodingPulled(std::string_view request_id, const ServedBy& by) override;

 private:
  RequestObserver* const next_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_PLAN_LOG_H_
