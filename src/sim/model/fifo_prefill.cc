// The kFifoPrefill service model: one prefill server, first come first served, then decode at a
// fixed pace without limit.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "sim/model/block_lru.h"
#include "sim/model/engine_service.h"

namespace kvrouter::sim {
namespace {

class FifoPrefill final : public EngineService {
 public:
  explicit FifoPrefill(const EngineConfig& config)
      : config_(config), cache_(config.capacity_blocks) {}

  void Submit(EngineRequest request, MonotonicTime now) override;
  void Abort(uint64_t id, MonotonicTime now) override;
  std::span<const uint32_t> HeldBlocks(uint64_t /*id*/) const override { return {}; }
  void ReleaseHeld(uint64_t /*id*/, MonotonicTime /*now*/) override {}
  MonotonicTime NextEventTime() const override;
  void AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) override;
  bool ResetPrefixCache() override;
  const EngineTotals& Totals() const override { return totals_; }
  EngineGauges Gauges() const override;
  uint64_t CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const override {
    return cache_.PrefixBlocks(block_hashes);
  }

 private:
  struct Live {
    EngineRequest request;
    MonotonicTime arrival{};
    uint64_t serial = 0;  // of this submission: tells a reused id from its aborted predecessor
  };
  struct Finish {
    MonotonicTime at{};
    uint64_t serial = 0;
    uint64_t id = 0;
    bool operator>(const Finish& other) const {
      return at != other.at ? at > other.at : serial > other.serial;
    }
  };
  using FinishQueue = std::priority_queue<Finish, std::vector<Finish>, std::greater<>>;

  MonotonicTime NextStart() const;
  void StartPrefill(MonotonicTime at, std::vector<EngineEvent>* out);
  void EndPrefill(std::vector<EngineEvent>* out);
  void FinishOldest(std::vector<EngineEvent>* out);
  void AddReferences(const EngineRequest& request);
  void DropReferences(const EngineRequest& request);
  // Aborted requests leave their entry in finishes_; the top is always a live one.
  void DropStaleFinishes();

  const EngineConfig config_;
  BlockLru cache_;
  absl::flat_hash_map<EngineHash, uint32_t> references_;  // by live requests
  absl::flat_hash_map<uint64_t, Live> live_;              // by request id
  std::deque<uint64_t> waiting_;                          // ids, in order of arrival
  std::optional<uint64_t> prefilling_;                    // id
  MonotonicTime prefill_end_{};                           // if prefilling_
  MonotonicTime server_free_since_{};
  FinishQueue finishes_;
  uint64_t next_serial_ = 0;
  EngineTotals totals_;
};

void FifoPrefill::Submit(EngineRequest request, MonotonicTime now) {
  KVR_CHECK(request.block_hashes.size() == request.isl_tokens / config_.block_size_tokens,
            "hashes={} isl_tokens={} block_size_tokens={}", request.block_hashes.size(),
            request.isl_tokens, config_.block_size_tokens);
  KVR_CHECK(request.external_tokens == 0 && !request.hold_blocks,
            "kFifoPrefill has no blocks to give or take: external_tokens={} hold_blocks={}",
            request.external_tokens, request.hold_blocks);
  const uint64_t id = request.id;
  AddReferences(request);
  const bool is_new =
      live_
          .try_emplace(
              id, Live{.request = std::move(request), .arrival = now, .serial = next_serial_++})
          .second;
  KVR_CHECK(is_new, "request id {} is live", id);
  waiting_.push_back(id);
}

void FifoPrefill::Abort(uint64_t id, MonotonicTime now) {
  const auto entry = live_.find(id);
  if (entry == live_.end()) return;
  if (prefilling_ == id) {
    prefilling_.reset();
    server_free_since_ = now;
  } else if (const auto place = std::find(waiting_.begin(), waiting_.end(), id);
             place != waiting_.end()) {
    waiting_.erase(place);
  }
  DropReferences(entry->second.request);
  live_.erase(entry);
  DropStaleFinishes();
  ++totals_.requests_aborted;
}

MonotonicTime FifoPrefill::NextStart() const {
  if (prefilling_ || waiting_.empty()) return MonotonicTime::max();
  return std::max(live_.at(waiting_.front()).arrival, server_free_since_);
}

MonotonicTime FifoPrefill::NextEventTime() const {
  const MonotonicTime server = prefilling_ ? prefill_end_ : NextStart();
  return finishes_.empty() ? server : std::min(server, finishes_.top().at);
}

void FifoPrefill::AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) {
  for (MonotonicTime at = NextEventTime(); at <= now; at = NextEventTime()) {
    if (at == MonotonicTime::max()) return;  // idle, and told to run for ever
    if (!finishes_.empty() && finishes_.top().at == at) {
      FinishOldest(out);
    } else if (prefilling_) {
      EndPrefill(out);
    } else {
      StartPrefill(at, out);
    }
  }
}

void FifoPrefill::StartPrefill(MonotonicTime at, std::vector<EngineEvent>* out) {
  const EngineRequest& request = live_.at(waiting_.front()).request;
  const uint64_t hit_blocks = cache_.PrefixBlocks(request.block_hashes);
  const uint64_t block_tokens = config_.block_size_tokens;
  const uint64_t counted_blocks =
      std::min(hit_blocks, MaxCountedHitBlocks(request.isl_tokens, config_.block_size_tokens));
  const uint64_t new_tokens = std::max<uint64_t>(1, request.isl_tokens - hit_blocks * block_tokens);
  totals_.prefix_cache_query_tokens += request.isl_tokens;
  totals_.prefix_cache_hit_tokens += counted_blocks * block_tokens;
  totals_.computed_prefill_tokens += new_tokens;
  prefilling_ = request.id;
  prefill_end_ = at + PrefillTime(config_, new_tokens);
  waiting_.pop_front();
  out->push_back({at, PrefillStarted{.id = request.id, .hit_blocks = hit_blocks}});
}

void FifoPrefill::EndPrefill(std::vector<EngineEvent>* out) {
  const MonotonicTime at = prefill_end_;
  const Live& live = live_.at(*prefilling_);
  const EngineRequest& request = live.request;
  const uint64_t known_blocks = cache_.PrefixBlocks(request.block_hashes);
  std::vector<EngineHash> evicted;
  cache_.Touch(request.block_hashes, &evicted);
  // The cache holds whole prefixes, so what was missing is the rest of the chain.
  if (known_blocks < request.block_hashes.size()) {
    out->push_back({at, BlocksStored{.id = request.id,
                                     .first_block = known_blocks,
                                     .count = request.block_hashes.size() - known_blocks}});
  }
  if (!evicted.empty()) out->push_back({at, BlocksRemoved{.hashes = std::move(evicted)}});
  out->push_back({at, FirstToken{.id = request.id}});
  const MonotonicTime decode_time = config_.inter_token * static_cast<int64_t>(request.osl_tokens);
  finishes_.push({.at = at + decode_time, .serial = live.serial, .id = request.id});
  prefilling_.reset();
  server_free_since_ = at;
}

void FifoPrefill::FinishOldest(std::vector<EngineEvent>* out) {
  const Finish finish = finishes_.top();
  finishes_.pop();
  const auto entry = live_.find(finish.id);
  const EngineRequest& request = entry->second.request;
  if (request.osl_tokens > 0) {
    out->push_back(
        {finish.at, TokensGenerated{.id = finish.id, .output_tokens = request.osl_tokens}});
  }
  out->push_back({finish.at, RequestFinished{.id = finish.id}});
  DropReferences(request);
  live_.erase(entry);
  DropStaleFinishes();
  ++totals_.requests_finished;
}

void FifoPrefill::AddReferences(const EngineRequest& request) {
  for (const EngineHash hash : request.block_hashes) ++references_[hash];
}

void FifoPrefill::DropReferences(const EngineRequest& request) {
  for (const EngineHash hash : request.block_hashes) {
    const auto entry = references_.find(hash);
    if (--entry->second == 0) references_.erase(entry);
  }
}

void FifoPrefill::DropStaleFinishes() {
  while (!finishes_.empty()) {
    const auto entry = live_.find(finishes_.top().id);
    if (entry != live_.end() && entry->second.serial == finishes_.top().serial) return;
    finishes_.pop();
  }
}

bool FifoPrefill::ResetPrefixCache() {
  cache_.Clear();
  return true;
}

EngineGauges FifoPrefill::Gauges() const {
  return {.running = live_.size() - waiting_.size(),
          .waiting = waiting_.size(),
          .cached_blocks = cache_.size_blocks(),
          .active_blocks = references_.size()};
}

}  // namespace

std::unique_ptr<EngineService> MakeFifoPrefill(const EngineConfig& config) {
  return std::make_unique<FifoPrefill>(config);
}

}  // namespace kvrouter::sim
