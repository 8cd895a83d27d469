#ifndef KVROUTER_TESTS_SUPPORT_FEED_HARNESS_H_
#define KVROUTER_TESTS_SUPPORT_FEED_HARNESS_H_

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feed/engine_feed.h"
#include "kvrouter/block_hash.h"
#include "support/engine_payload.h"
#include "support/naive_index.h"

namespace kvrouter {

inline constexpr WorkerId kFeedWorker{7};

// `count` token ids from `first` on.
inline std::vector<TokenId> TokenRun(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct EngineBatch {
  uint64_t sequence = 0;
  std::string payload;
};

// The publishing side of one engine life: numbers batches and keeps them for replay.
class FakeEngine {
 public:
  explicit FakeEngine(double start_ts = 1000.0) : ts_(start_ts) {}

  const EngineBatch& Publish(const std::vector<std::string>& events,
                             std::optional<int64_t> rank = 0) {
    ts_ += 0.125;
    history_.push_back({next_sequence_++, BatchPayload(ts_, events, rank)});
    return history_.back();
  }
  // One block of 4 tokens that begins a sequence; its hash is its first token.
  const EngineBatch& PublishRoot(TokenId first) {
    return Publish({ArrayStore({.hashes = {first}, .parent = {}, .tokens = TokenRun(first, 4)})});
  }
  // The block after that of `parent`, likewise named by its first token.
  const EngineBatch& PublishChild(TokenId first, TokenId parent) {
    return Publish(
        {ArrayStore({.hashes = {first}, .parent = parent, .tokens = TokenRun(first, 4)})});
  }
  void BurnSequence() { ++next_sequence_; }
  void SetNextSequence(uint64_t sequence) { next_sequence_ = sequence; }

  const std::vector<EngineBatch>& history() const { return history_; }
  void ForgetBefore(uint64_t sequence) {
    std::erase_if(history_, [&](const EngineBatch& batch) { return batch.sequence < sequence; });
  }

 private:
  double ts_;
  uint64_t next_sequence_ = 0;
  std::vector<EngineBatch> history_;
};

// A feed with a naive index behind it. Block size 4; ranks 0..dp_size-1; the socket is rank 0's.
class FeedHarness {
 public:
  explicit FeedHarness(bool has_replay = true, uint32_t dp_size = 1)
      : FeedHarness(Config(has_replay, dp_size)) {}
  explicit FeedHarness(const EngineFeedConfig& config) : feed_(config) {}

  static EngineFeedConfig Config(bool has_replay, uint32_t dp_size = 1) {
    return {.target = {kFeedWorker, 0},
            .incarnation = Incarnation{3},
            .dp_size = dp_size,
            .block_size_tokens = 4,
            .has_replay = has_replay};
  }

  void Connect() {
    feed_.OnConnected(&out_);
    ApplyAll();
  }
  void Disconnect() { feed_.OnDisconnected(); }
  void Live(const EngineBatch& batch) {
    LiveFrames({"topic", SequenceFrame(batch.sequence), batch.payload});
  }
  void LiveFrames(const std::vector<std::string>& frames) {
    feed_.OnLiveMessage(Views(frames), &out_);
    ApplyAll();
  }

  // The wanted replay's start, if one is wanted.
  std::optional<uint64_t> TakeRequest() {
    const auto request = feed_.TakeReplayRequest(now_);
    if (!request) return std::nullopt;
    return request->from_sequence;
  }
  void Replayed(const EngineBatch& batch) {
    ReplayFrames({"", SequenceFrame(batch.sequence), batch.payload});
  }
  void ReplayEnd() { ReplayFrames({"", SequenceFrame(UINT64_MAX), ""}); }
  void ReplayFrames(const std::vector<std::string>& frames) {
    feed_.OnReplayMessage(Views(frames), now_, &out_);
    ApplyAll();
  }
  // Serves wanted replays from the engine's history until none is wanted; returns how many.
  int ServeReplays(const FakeEngine& engine, int at_most = 10) {
    int served = 0;
    while (served < at_most) {
      const auto from = TakeRequest();
      if (!from) break;
      ++served;
      bool replaced = false;
      for (const EngineBatch& batch : engine.history()) {
        if (batch.sequence < *from) continue;
        Replayed(batch);
        replaced = !feed_.ReplayRunning() || feed_.ReplayWanted();
        if (replaced) break;
      }
      if (!replaced) ReplayEnd();
    }
    return served;
  }

  void Advance(MonotonicTime by) {
    now_ += by;
    feed_.OnTick(now_, &out_);
    ApplyAll();
  }

  // Blocks of 4 tokens from the start of `tokens` that the rank holds.
  uint32_t Overlap(const std::vector<TokenId>& tokens, uint32_t rank = 0) const {
    std::vector<LocalBlockHash> query;
    AppendLocalBlockHashes(tokens, 4, BlockSeed({}), &query);
    for (const OverlapMatch& match : index_.FindOverlap(query)) {
      if (match.target == Target{kFeedWorker, rank}) return match.blocks;
    }
    return 0;
  }
  uint64_t Blocks(uint32_t rank = 0) const { return index_.HolderBlocks({kFeedWorker, rank}); }
  uint64_t Skipped(SkipReason reason) const {
    return feed_.Counters().skipped[static_cast<size_t>(reason)];
  }

  EngineFeed& feed() { return feed_; }
  const FeedCounters& counters() const { return feed_.Counters(); }
  const NaiveIndex& index() const { return index_; }
  const std::vector<KvEvent>& applied() const { return applied_; }
  const std::vector<ApplyResult>& results() const { return results_; }
  StorageTier TierOf(size_t applied) const { return applied_.at(applied).tier; }
  uint64_t Clears() const {
    uint64_t clears = 0;
    for (const KvEvent& event : applied_)
      clears += std::holds_alternative<Cleared>(event.data) ? 1 : 0;
    return clears;
  }

 private:
  static std::vector<std::string_view> Views(const std::vector<std::string>& frames) {
    return {frames.begin(), frames.end()};
  }
  void ApplyAll() {
    for (const KvEvent& event : out_) {
      const ApplyResult result = index_.Apply(event);
      feed_.OnApplyResult(event, result);
      applied_.push_back(event);
      results_.push_back(result);
    }
    out_.clear();
  }

  EngineFeed feed_;
  NaiveIndex index_;
  MonotonicTime now_{};
  std::vector<KvEvent> out_;
  std::vector<KvEvent> applied_;
  std::vector<ApplyResult> results_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_FEED_HARNESS_H_
