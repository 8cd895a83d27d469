#include "adapters/metrics/router_metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "adapters/metrics/decision_figures.h"
#include "adapters/metrics/metric_families.h"
#include "adapters/metrics/overhead_figures.h"
#include "adapters/metrics/plan_figures.h"
#include "adapters/metrics/request_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

// FNV-1a over the host name: the same after a restart, different on another host.
std::string HostId() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "0";
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char* c = name; *c != '\0'; ++c)
    hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3ull;
  return fmt::format("{}", hash);
}

MetricFamilies::LabelSets ConstantLabelsOf(const MetricsConfig& config) {
  const MetricLabels component = {{"dynamo_namespace", ValidUtf8(config.dynamo_namespace)},
                                  {"dynamo_component", "router"},
                                  {"dynamo_endpoint", "generate"}};
  const MetricLabels router_id = {
      {"router_id", config.router_id.empty() ? HostId() : ValidUtf8(config.router_id)}};
  MetricLabels router = component;
  router.insert(router.end(), router_id.begin(), router_id.end());
  return {.component = component, .router = router, .router_id = router_id};
}

// Of registered workers only: a source may still be closing the socket of one that has left.
std::vector<FeedReport> CurrentReports(const RouterMetrics::Sources& sources) {
  std::vector<FeedReport> reports;
  if (sources.feeds == nullptr) return reports;
  reports = sources.feeds->Reports();
  if (sources.workers == nullptr) return reports;
  std::set<WorkerId> known;
  for (const WorkerSpec& worker : sources.workers->List()) known.insert(worker.id);
  std::erase_if(reports, [&known](const FeedReport& report) {
    return !known.contains(report.target.worker);
  });
  return reports;
}

}  // namespace

struct RouterMetrics::Impl {
  explicit Impl(const MetricsConfig& config)
      : version(config.version), constant_labels(ConstantLabelsOf(config)) {}

  const std::string version;
  const MetricFamilies::LabelSets constant_labels;
  Sources sources;
  DecisionFigures decisions;
  OverheadFigures overhead;
  RequestFigures requests;
  PlanFigures plans;
  DispatchFigures dispatch;
};

RouterMetrics::RouterMetrics(MetricsConfig config) : impl_(std::make_unique<Impl>(config)) {}
RouterMetrics::~RouterMetrics() = default;

void RouterMetrics::SetSources(Sources sources) { impl_->sources = std::move(sources); }

void RouterMetrics::OnDecision(const RouteRequest& /*request*/, const RouteDecision& decision) {
  impl_->decisions.Count(decision);
  impl_->requests.Book(decision);
  impl_->plans.Count(decision);
}

MonotonicTime RouterMetrics::ReadClock() const {
  return std::chrono::steady_clock::now().time_since_epoch();
}

void RouterMetrics::OnPhases(const PhaseTimes& times) { impl_->overhead.Observe(times); }

void RouterMetrics::OnFirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival) {
  impl_->requests.FirstToken(by, since_arrival);
}

void RouterMetrics::OnOutputBlock(const ServedBy& by,
                                  std::chrono::nanoseconds average_inter_token) {
  impl_->requests.OutputBlock(by, average_inter_token);
}

void RouterMetrics::OnEnd(const ServedBy& /*by*/, uint64_t output_tokens) {
  impl_->requests.End(output_tokens);
}

DispatchObserver* RouterMetrics::Dispatch() { return &impl_->dispatch; }

HitSums RouterMetrics::Hits() const { return impl_->decisions.Sums(); }

DeliveredSums RouterMetrics::Delivered() const { return impl_->dispatch.Delivered(); }

std::string RouterMetrics::Text() const {
  const Sources& from = impl_->sources;
  const auto partitions =
      from.router != nullptr ? from.router->Snapshot() : std::vector<PartitionSnapshot>{};
  const auto applied = from.feeds != nullptr ? from.feeds->Applied() : FeedMonitor::AppliedCounts{};
  const auto feed_totals = from.feeds != nullptr ? from.feeds->Totals() : FeedCounters{};
  MetricFamilies out(&impl_->constant_labels);
  impl_->decisions.ShowHits(&out);
  impl_->decisions.ShowRegret(&out);
  impl_->overhead.Show(&out);
  impl_->requests.ShowRequests(&out);
  impl_->decisions.ShowDecisions(&out);
  ShowService(from.service != nullptr ? from.service->Counters() : ServiceCounters{},
              from.workers != nullptr ? from.workers->Refused() : RefusalCounts::ByReason{},
              from.published != nullptr ? from.published->Refused() : RefusalCounts::ByReason{},
              &out);
  ShowRecord(from.record ? from.record() : RecordFigures{}, &out);
  impl_->decisions.ShowShadow(&out);
  impl_->plans.Show(&out);
  ShowSessions(partitions, &out);
  ShowPlanning(from.router != nullptr ? from.router->PlanningState() : PlanningFigures{}, &out);
  ShowEvents(applied, feed_totals, &out);
  const MonotonicTime now = from.clock != nullptr ? from.clock->Now() : MonotonicTime{};
  ShowWorkers(partitions, now, &out);
  impl_->requests.ShowLatest(partitions, &out);
  ShowReportedLoads(
      from.loads != nullptr ? from.loads->List() : std::vector<ReportedLoads::Report>{}, now, &out);
  ShowEngineLoads(partitions, from.engine_loads, &out);
  ShowQueues(partitions, &out);
  ShowModels(from.workers != nullptr ? from.workers->List() : std::vector<WorkerSpec>{}, &out);
  ShowPartitions(partitions, &out);
  ShowOverlapSources(partitions, &out);
  ShowFeeds(feed_totals, &out);
  ShowFeedStates(CurrentReports(from), &out);
  ShowDiscovery(from.discovery ? from.discovery() : DiscoveryFigures{}, &out);
  ShowWarmStart(from.warm_start ? from.warm_start() : WarmStartFigures{}, &out);
  impl_->dispatch.Show(from.dispatch ? from.dispatch() : DispatchState{}, partitions, &out);
  ShowHttp(from.http ? from.http() : HttpFigures{}, &out);
  ShowProcess(from.ready && from.ready(), impl_->version, &out);
  return out.Text();
}

}  // namespace kvrouter
