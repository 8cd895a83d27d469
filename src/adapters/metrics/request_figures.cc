#include "adapters/metrics/request_figures.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace kvrouter {
namespace {

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void RequestFigures::Book(const RouteDecision& decision) {
  if (!decision.booked || decision.leg == RequestPhase::kDecode) return;
  const auto input_tokens = static_cast<double>(decision.isl_tokens);
  input_tokens_.Observe(input_tokens);
  Note({.target = decision.target, .incarnation = decision.incarnation}, &Latest::input_tokens,
       input_tokens);
}

void RequestFigures::FirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival) {
  first_token_seconds_.Observe(Seconds(since_arrival));
  Note(by, &Latest::first_token_seconds, Seconds(since_arrival));
}

void RequestFigures::OutputBlock(const ServedBy& by, std::chrono::nanoseconds average_inter_token) {
  inter_token_seconds_.Observe(Seconds(average_inter_token));
  Note(by, &Latest::inter_token_seconds, Seconds(average_inter_token));
}

void RequestFigures::End(uint64_t output_tokens) {
  output_tokens_.Observe(static_cast<double>(output_tokens));
}

void RequestFigures::Note(const ServedBy& by, std::optional<double> Latest::*figure, double value) {
  MutexLock lock(mu_);
  auto it = latest_.find(by.target);
  if (it == latest_.end()) {
    if (latest_.size() >= kMaxTargets) return;
    it = latest_.emplace(by.target, Latest{.incarnation = by.incarnation}).first;
  }
  Latest& latest = it->second;
  if (by.incarnation < latest.incarnation) return;  // a late report on an earlier life
  if (by.incarnation > latest.incarnation) latest = Latest{.incarnation = by.incarnation};
  latest.*figure = value;
}

void RequestFigures::ShowRequests(MetricFamilies* out) const {
  out->Open(Metric::kInputSequenceTokens);
  out->AddHistogram(input_tokens_.Collect());
  out->Open(Metric::kOutputSequenceTokens);
  out->AddHistogram(output_tokens_.Collect());
  out->Open(Metric::kTimeToFirstToken);
  out->AddHistogram(first_token_seconds_.Collect());
  out->Open(Metric::kInterTokenLatency);
  out->AddHistogram(inter_token_seconds_.Collect());
}

void RequestFigures::ShowLatest(const std::vector<PartitionSnapshot>& partitions,
                                MetricFamilies* out) {
  std::vector<std::pair<const TargetLoad*, Latest>> shown;
  {
    MutexLock lock(mu_);
    std::map<Target, Latest> kept;
    for (const PartitionSnapshot& partition : partitions) {
      for (const TargetLoad& load : partition.loads) {
        const auto it = latest_.find(load.target);
        if (it == latest_.end()) continue;
        // A newer life than the snapshot's is shown by the next scrape.
        if (it->second.incarnation == load.incarnation) shown.emplace_back(&load, it->second);
        if (it->second.incarnation >= load.incarnation) kept.insert(*it);
      }
    }
    latest_.swap(kept);
  }
  const auto show = [&](Metric metric, std::optional<double> Latest::*figure) {
    out->Open(metric);
    for (const auto& [load, latest] : shown) {
      if (latest.*figure) out->Add(*(latest.*figure), WorkerLabels(*load, "worker_id"));
    }
  };
  show(Metric::kWorkerLastTimeToFirstToken, &Latest::first_token_seconds);
  show(Metric::kWorkerLastInputTokens, &Latest::input_tokens);
  show(Metric::kWorkerLastInterTokenLatency, &Latest::inter_token_seconds);
}

}  // namespace kvrouter
