#include "adapters/metrics/dispatch_figures.h"

#include <algorithm>
#include <utility>

namespace kvrouter {
namespace {

constexpr std::array<std::string_view, kDispatchEndpointCount> kEndpoints = {
    "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/models",
    "/tokenize",       "/detokenize",          "other"};

size_t EndpointOf(std::string_view path) {
  const auto* const found = std::find(kEndpoints.begin(), kEndpoints.end() - 1, path);
  return static_cast<size_t>(found - kEndpoints.begin());
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

template <typename Enum>
void CountOne(auto* counters, Enum value) {
  (*counters)[static_cast<size_t>(value)].Increment();
}

// Whether the request waited for an engine's answer.
bool AskedAnEngine(TokenizeOutcome outcome) {
  switch (outcome) {
    case TokenizeOutcome::kEngine:
    case TokenizeOutcome::kShared:
    case TokenizeOutcome::kTimedOut:
    case TokenizeOutcome::kFailed:
    case TokenizeOutcome::kRefused:
    case TokenizeOutcome::kBadAnswer:
      return true;
    case TokenizeOutcome::kCached:
    case TokenizeOutcome::kBreakerOpen:
    case TokenizeOutcome::kOverLimit:
    case TokenizeOutcome::kNoWorker:
    case TokenizeOutcome::kDisabled:
      return false;
  }
  return false;
}

}  // namespace

void DispatchFigures::OnFirstToken(std::string_view path, std::chrono::nanoseconds since_arrival) {
  endpoints_[EndpointOf(path)].first_token_seconds.Observe(Seconds(since_arrival));
}

void DispatchFigures::OnLeg(LegKind kind, const Target& /*target*/, LegResult result,
                            std::chrono::nanoseconds took) {
  LegFigures& leg = legs_[static_cast<size_t>(kind)];
  CountOne(&leg.results, result);
  leg.seconds.Observe(Seconds(took));
}

void DispatchFigures::OnFallback(DispatchFallback fallback) { CountOne(&fallbacks_, fallback); }

void DispatchFigures::OnOutgrown(OutgrownHold hold) { CountOne(&outgrown_, hold); }

void DispatchFigures::OnTokenize(TokenizeOutcome outcome, std::chrono::nanoseconds took) {
  CountOne(&texts_, outcome);
  if (AskedAnEngine(outcome)) tokenize_seconds_.Observe(Seconds(took));
}

void DispatchFigures::OnOverlap(const DeliveredOverlap& overlap) {
  const auto prompt = static_cast<double>(overlap.prompt_tokens);
  const auto predicted = static_cast<double>(overlap.predicted_tokens);
  const auto delivered = static_cast<double>(overlap.delivered_tokens);
  prompt_tokens_.Increment(prompt);
  predicted_tokens_.Increment(predicted);
  delivered_tokens_.Increment(delivered);
  MutexLock lock(mu_);
  auto model = cached_by_model_.find(overlap.model);
  if (model == cached_by_model_.end() && cached_by_model_.size() < kMaxModels) {
    model = cached_by_model_
                .emplace(std::string(overlap.model),
                         std::make_unique<AtomicHistogram>(Metric::kFrontendCachedTokens))
                .first;
  }
  if (model != cached_by_model_.end()) model->second->Observe(delivered);
  if (overlap.prompt_tokens == 0) return;
  auto target = calibration_.find(overlap.target);
  if (target == calibration_.end() && calibration_.size() < kMaxTargets) {
    target = calibration_
                 .emplace(overlap.target,
                          std::make_unique<AtomicHistogram>(Metric::kOverlapCalibrationError))
                 .first;
  }
  if (target != calibration_.end())
    target->second->Observe(std::clamp((delivered - predicted) / prompt, -1.0, 1.0));
}

void DispatchFigures::OnLeaseLeft(const Target& /*producer*/) { leases_left_.Increment(); }

void DispatchFigures::OnEnd(const DispatchEnd& end) {
  EndpointFigures& endpoint = endpoints_[EndpointOf(end.path)];
  CountOne(&endpoint.ends, end.outcome);
  endpoint.seconds.Observe(Seconds(end.since_arrival));
  if (end.retries > 0) retries_.Increment(end.retries);
}

void DispatchFigures::Show(const DispatchState& state,
                           const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  out->Open(Metric::kFrontendCachedTokens);
  {
    MutexLock lock(mu_);
    for (const auto& [model, histogram] : cached_by_model_)
      out->AddHistogram(histogram->Collect(), {{"model", model}});
  }
  ShowRequests(state.counters, out);
  ShowLegs(out);
  ShowOverlap(partitions, out);
  ShowTokenizing(state.counters, out);
  ShowEngineCalls(state.engines, out);
}

void DispatchFigures::ShowRequests(const DispatchCounters& counters, MetricFamilies* out) const {
  out->Open(Metric::kDispatchRequests);
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    for (size_t outcome = 0; outcome < endpoints_[i].ends.size(); ++outcome) {
      out->Add(
          endpoints_[i].ends[outcome].Value(),
          {{"endpoint", std::string(kEndpoints[i])},
           {"outcome", std::string(DispatchOutcomeName(static_cast<DispatchOutcome>(outcome)))}});
    }
  }
  out->Show(Metric::kDispatchLiveRequests, counters.live);
  const auto show = [&](Metric metric, AtomicHistogram EndpointFigures::*histogram) {
    out->Open(metric);
    for (size_t i = 0; i < endpoints_.size(); ++i)
      out->AddHistogram((endpoints_[i].*histogram).Collect(),
                        {{"endpoint", std::string(kEndpoints[i])}});
  };
  show(Metric::kDispatchRequestTime, &EndpointFigures::seconds);
  show(Metric::kDispatchFirstTokenTime, &EndpointFigures::first_token_seconds);
}

void DispatchFigures::ShowLegs(MetricFamilies* out) const {
  const auto kind = [](size_t i) { return std::string(LegKindName(static_cast<LegKind>(i))); };
  out->Open(Metric::kDispatchLegs);
  for (size_t i = 0; i < legs_.size(); ++i) {
    for (size_t result = 0; result < legs_[i].results.size(); ++result) {
      out->Add(legs_[i].results[result].Value(),
               {{"kind", kind(i)},
                {"result", std::string(LegResultName(static_cast<LegResult>(result)))}});
    }
  }
  out->Open(Metric::kDispatchLegTime);
  for (size_t i = 0; i < legs_.size(); ++i)
    out->AddHistogram(legs_[i].seconds.Collect(), {{"kind", kind(i)}});
  out->Open(Metric::kDispatchFallbacks);
  for (size_t i = 0; i < fallbacks_.size(); ++i) {
    out->Add(fallbacks_[i].Value(),
             {{"reason", std::string(DispatchFallbackName(static_cast<DispatchFallback>(i)))}});
  }
  out->Open(Metric::kDispatchOutgrown);
  for (size_t i = 0; i < outgrown_.size(); ++i) {
    out->Add(outgrown_[i].Value(),
             {{"what", std::string(OutgrownHoldName(static_cast<OutgrownHold>(i)))}});
  }
  out->Show(Metric::kDispatchRetries, retries_.Value());
  out->Show(Metric::kDispatchLeasesLeft, leases_left_.Value());
}

void DispatchFigures::ShowOverlap(const std::vector<PartitionSnapshot>& partitions,
                                  MetricFamilies* out) {
  out->Show(Metric::kDeliveredPromptTokens, prompt_tokens_.Value());
  out->Show(Metric::kDeliveredPredictedTokens, predicted_tokens_.Value());
  out->Show(Metric::kDeliveredOverlapTokens, delivered_tokens_.Value());
  out->Open(Metric::kOverlapCalibrationError);
  MutexLock lock(mu_);
  std::map<Target, std::unique_ptr<AtomicHistogram>> kept;
  for (const PartitionSnapshot& partition : partitions) {
    for (const TargetLoad& load : partition.loads) {
      auto node = calibration_.extract(load.target);
      if (node.empty()) continue;
      out->AddHistogram(node.mapped()->Collect(),
                        {{"worker_id", std::to_string(static_cast<uint64_t>(load.target.worker))},
                         {"dp_rank", std::to_string(load.target.dp_rank)}});
      kept.insert(std::move(node));
    }
  }
  calibration_.swap(kept);
}

void DispatchFigures::ShowTokenizing(const DispatchCounters& counters, MetricFamilies* out) const {
  out->Open(Metric::kTokenizeTexts);
  for (size_t i = 0; i < texts_.size(); ++i) {
    out->Add(texts_[i].Value(),
             {{"outcome", std::string(TokenizeOutcomeName(static_cast<TokenizeOutcome>(i)))}});
  }
  out->Open(Metric::kTokenizeTime);
  out->AddHistogram(tokenize_seconds_.Collect());
  out->Show(Metric::kTokenizeInFlight, counters.tokenize_in_flight);
  out->Show(Metric::kTokenizeBreakersOpen, counters.breakers_open);
  out->Show(Metric::kTokenizeCacheEntries, counters.tokenize_cache_entries);
  out->Show(Metric::kTokenizeCacheBytes, counters.tokenize_cache_bytes);
  out->Show(Metric::kTokenizeCacheEvicted, counters.tokenize_cache_evicted);
}

void ShowEngineCalls(const EngineCallFigures& engines, MetricFamilies* out) {
  out->Open(Metric::kEngineCalls);
  for (const auto& [end, calls] : engines.ends) out->Add(calls, {{"end", end}});
  out->Show(Metric::kEngineCallsRetried, engines.retried);
  out->Open(Metric::kEngineCallsNow);
  out->Add(engines.running, {{"state", "running"}});
  out->Add(engines.waiting, {{"state", "waiting"}});
  out->Open(Metric::kEngineConnections);
  out->Add(engines.busy_connections, {{"state", "busy"}});
  out->Add(engines.idle_connections, {{"state", "idle"}});
  out->Show(Metric::kEngineConnectionsOpened, engines.opened);
  out->Show(Metric::kEngineConnectionsReused, engines.reused);
  out->Open(Metric::kEngineConnectionsClosed);
  out->Add(engines.closed_idle, {{"why", "idle"}});
  out->Add(engines.closed_ended, {{"why", "ended"}});
  out->Add(engines.closed_surplus, {{"why", "surplus"}});
  out->Open(Metric::kEngineBytes);
  out->Add(engines.sent_bytes, {{"direction", "sent"}});
  out->Add(engines.received_bytes, {{"direction", "received"}});
  out->Open(Metric::kEngineNameLookups);
  out->Add(engines.names_answered, {{"result", "answered"}});
  out->Add(engines.names_failed, {{"result", "failed"}});
}

}  // namespace kvrouter
