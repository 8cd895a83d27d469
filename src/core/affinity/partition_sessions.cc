#include "core/affinity/partition_sessions.h"

namespace kvrouter {
namespace {

SessionIdentifier::Options IdentifierOptions(const SessionConfig& config) {
  return {.prefix_tokens = config.prefix_tokens,
          .hot_keys = {.hot_share_of_mean = config.hot_share_of_mean,
                       .min_requests = static_cast<double>(config.hot_min_requests),
                       .half_life = config.hot_half_life}};
}

}  // namespace

PartitionSessions::PartitionSessions(const SessionConfig& config)
    : derives_(config.prefix_tokens > 0), identifier_(IdentifierOptions(config)) {}

SessionIdentifier::Identity PartitionSessions::Identify(const Request& request, MonotonicTime now) {
  if (!request.caller_id.empty())
    return {.key = KeyOfCallerId(request.caller_id), .source = SessionSource::kCaller};
  if (!derives_) return {};
  MutexLock lock(mu_);
  return request.book
             ? identifier_.Identify(request.caller_id, request.prompt, request.targets, now)
             : identifier_.Peek(request.caller_id, request.prompt);
}

std::optional<Target> PartitionSessions::HomeOf(SessionKey key) const {
  MutexLock lock(mu_);
  const Target* const home = homes_.Find(key);
  return home == nullptr ? std::nullopt : std::optional(*home);
}

void PartitionSessions::SetHome(SessionKey key, Target target) {
  MutexLock lock(mu_);
  homes_.Put(key, target);
}

DerivedSessionFigures PartitionSessions::Figures() const {
  MutexLock lock(mu_);
  const Lineage::Stats lineage = identifier_.LineageStats();
  return {.ends = lineage.ends,
          .aliases = lineage.aliases,
          .evicted_total = lineage.ends_evicted_total + lineage.aliases_evicted_total,
          .refused_total = lineage.ends_refused_total,
          .hot = identifier_.hot_keys().HotCount(),
          .turned_hot_total = identifier_.hot_keys().TurnedHotTotal()};
}

uint64_t PartitionSessions::Homes() const {
  MutexLock lock(mu_);
  return homes_.size();
}

uint64_t PartitionSessions::HomesEvictedTotal() const {
  MutexLock lock(mu_);
  return homes_.EvictionsTotal();
}

}  // namespace kvrouter
