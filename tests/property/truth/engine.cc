#include "property/truth/engine.h"

#include <algorithm>
#include <utility>

#include "property/truth/host_tier.h"

namespace kvrouter::truth {

void Engine::Submit(const std::vector<NodeId>& path) {
  if (!IsRunning()) return;
  Advance();
  cache_->Submit(path, timeline_.Now());
}

std::optional<MonotonicTime> Engine::Advance() {
  if (!IsRunning()) return std::nullopt;
  std::vector<CacheOp> ops;
  cache_->Advance(timeline_.Now(), &ops);
  if (!ops.empty()) Publish(std::move(ops));
  const MonotonicTime next = cache_->NextTime();
  return next == MonotonicTime::max() ? std::nullopt : std::optional(next);
}

void Engine::Stop() { cache_.reset(); }

void Engine::Start() {
  ++lives_;
  cache_ = MakeCache(config_.cache, Mix(seed_, lives_));
  if (config_.host_tier)
    cache_ = std::make_unique<HostTier>(std::move(cache_), Mix(Mix(seed_, lives_), 1));
  NewPublisher();
  LoseAll({publisher_life_, 0});
  holds_untold_ = false;
}

void Engine::RestartPublisher() {
  if (!IsRunning()) return;
  NewPublisher();
  holds_untold_ = true;
}

void Engine::NewPublisher() {
  ++publisher_life_;
  next_sequence_ = 0;
  history_.clear();
}

void Engine::ResetCache() {
  if (!IsRunning() || !cache_->Reset()) return;
  holds_untold_ = false;
  Publish({CacheOp{}});
}

void Engine::Publish(std::vector<CacheOp> ops) {
  const Said said{publisher_life_, next_sequence_++};
  Account(ops, said);
  const double wall_time_s = clock_offset_s_ + static_cast<double>(timeline_.Now().count()) * 1e-9;
  std::string payload = EncodeBatch(tree_, config_.dialect, Mix(seed_, lives_), config_.dp_rank,
                                    wall_time_s, ops, &dice_);
  history_.push_back({said, std::move(payload), std::move(ops)});
  if (history_.size() > config_.history_batches) history_.pop_front();
  if (sink_) sink_(history_.back());
}

void Engine::Account(const std::vector<CacheOp>& ops, Said said) {
  for (const CacheOp& op : ops) {
    if (op.kind == CacheOp::Kind::kCleared) LoseAll(said);
    for (const NodeId node : op.nodes) {
      Holding& holding = holdings_[{op.tier, node}];
      if (op.kind == CacheOp::Kind::kStored) {
        ++holding.copies;
      } else if (--holding.copies == 0) {
        holding.last_loss = Loss{timeline_.Now(), said};
      }
    }
  }
}

void Engine::LoseAll(Said said) {
  for (auto& [block, holding] : holdings_) {
    if (holding.copies > 0) holding.last_loss = Loss{timeline_.Now(), said};
    holding.copies = 0;
  }
}

std::optional<Engine::Loss> Engine::LastLoss(StorageTier tier, NodeId node) const {
  const auto known = holdings_.find({tier, node});
  return known == holdings_.end() ? std::nullopt : known->second.last_loss;
}

}  // namespace kvrouter::truth
