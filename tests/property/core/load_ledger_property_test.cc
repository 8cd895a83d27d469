#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "core/schedule/load_ledger.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

constexpr uint32_t kBlockSize = 4;
constexpr seconds kExpiry{300};

// A list of live requests and loops over it, written from the specification (dynamo-core 4.6) and
// sharing no code with LoadLedger. Weights are binary fractions of a block, which both sides
// represent exactly.
class NaiveLedger {
 public:
  struct Request {
    uint32_t target = 0;
    std::vector<SequenceHash> chain;
    bool shares = true;
    uint64_t prefill_tokens = 0;
    uint64_t isl_tokens = 0;
    uint64_t expected = 0;  // 0: unknown
    uint64_t output_tokens = 0;
    uint64_t output_blocks = 0;
    double weight = 1;
    MonotonicTime last_sign{};
  };

  std::map<BookingId, Request> live;

  bool Finish(BookingId id) { return live.erase(id) == 1; }

  bool PrefillComplete(BookingId id, MonotonicTime now) {
    const auto it = live.find(id);
    if (it == live.end()) return false;
    it->second.prefill_tokens = 0;
    it->second.last_sign = now;
    return true;
  }

  bool OutputTokens(BookingId id, uint64_t tokens, std::optional<double> fraction,
                    MonotonicTime now) {
    const auto it = live.find(id);
    if (it == live.end()) return false;
    Request& r = it->second;
    r.last_sign = now;
    r.output_tokens = std::max(r.output_tokens, tokens);
    const auto blocks = [](uint64_t t) { return (t + kBlockSize - 1) / kBlockSize; };
    const uint64_t crossed = blocks(r.isl_tokens + r.output_tokens) - blocks(r.isl_tokens);
    if (crossed > r.output_blocks) Grow(r, crossed, fraction);
    return true;
  }

  bool OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now) {
    const auto it = live.find(id);
    if (it == live.end()) return false;
    Request& r = it->second;
    r.last_sign = now;
    r.output_tokens += kBlockSize;
    Grow(r, r.output_blocks + 1, fraction);
    return true;
  }

  bool KeepAlive(BookingId id, MonotonicTime now) {
    const auto it = live.find(id);
    if (it == live.end()) return false;
    it->second.last_sign = now;
    return true;
  }

  std::vector<BookingId> Expire(MonotonicTime now) {
    std::vector<BookingId> gone;
    for (const auto& [id, r] : live) {
      if (now - r.last_sign >= kExpiry) gone.push_back(id);
    }
    for (const BookingId id : gone) live.erase(id);
    return gone;
  }

  void RemoveTarget(uint32_t target) {
    std::erase_if(live, [&](const auto& entry) { return entry.second.target == target; });
  }

  LoadLedger::Load LoadOf(uint32_t target) const {
    LoadLedger::Load load;
    double blocks = 0;
    // A block is its whole prefix; the weights of those that hold it.
    std::map<std::vector<SequenceHash>, std::vector<double>> holders;
    for (const auto& [id, r] : live) {
      if (r.target != target) continue;
      load.active_prefill_tokens += r.prefill_tokens;
      ++load.active_requests;
      blocks += static_cast<double>(r.output_blocks) * r.weight;
      if (!r.shares) blocks += static_cast<double>(r.chain.size()) * r.weight;
      for (size_t n = 1; r.shares && n <= r.chain.size(); ++n) {
        holders[{r.chain.begin(), r.chain.begin() + static_cast<long>(n)}].push_back(r.weight);
      }
    }
    for (const auto& [block, weights] : holders) blocks += weights.size() == 1 ? weights[0] : 1;
    load.active_decode_blocks = std::round(blocks);
    return load;
  }

  uint32_t LivePrefix(uint32_t target, const std::vector<SequenceHash>& chain) const {
    size_t best = 0;
    for (const auto& [id, r] : live) {
      if (r.target != target || !r.shares) continue;
      const auto [a, b] = std::mismatch(chain.begin(), chain.end(), r.chain.begin(), r.chain.end());
      best = std::max(best, static_cast<size_t>(a - chain.begin()));
    }
    return static_cast<uint32_t>(best);
  }

 private:
  static void Grow(Request& r, uint64_t blocks, std::optional<double> fraction) {
    r.output_blocks = blocks;
    if (fraction) {
      r.weight = *fraction;
    } else if (r.expected > 0) {
      r.weight =
          std::max(0.0, 1 - static_cast<double>(r.output_tokens) / static_cast<double>(r.expected));
    }
  }
};

class Histories {
 public:
  explicit Histories(uint64_t seed) : random_(seed) {
    for (uint32_t i = 0; i < kTargets; ++i) slots_.push_back(ledger_.AddTarget());
  }

  void Step() {
    now_ += std::chrono::milliseconds(Draw(2000));
    const BookingId id = AnId();
    switch (Draw(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Add();
      case 4:
        return Check(ledger_.PrefillComplete(id, now_), model_.PrefillComplete(id, now_));
      case 5: {
        const uint64_t tokens = Draw(40);
        const auto fraction = AFraction();
        return Check(ledger_.OutputTokens(id, tokens, fraction, now_),
                     model_.OutputTokens(id, tokens, fraction, now_));
      }
      case 6: {
        const auto fraction = AFraction();
        return Check(ledger_.OutputBlock(id, fraction, now_),
                     model_.OutputBlock(id, fraction, now_));
      }
      case 7:
        return Check(ledger_.KeepAlive(id, now_), model_.KeepAlive(id, now_));
      case 8:
      case 9:
      case 10:
        return Check(ledger_.Finish(id), model_.Finish(id));
      default:
        return Draw(20) == 0 ? RemoveTarget() : Expire();
    }
  }

  void CompareLoads() {
    ASSERT_EQ(ledger_.LiveBookings(), model_.live.size());
    ASSERT_LE(ledger_.ChainNodeCount(), 2 * model_.live.size());
    const auto chain = AChain();
    std::vector<uint32_t> live_blocks(ledger_.SlotCount(), 0);
    ledger_.FindLivePrefixes(chain, live_blocks);
    for (uint32_t t = 0; t < kTargets; ++t) {
      const auto ours = ledger_.LoadOf(slots_[t]);
      const auto theirs = model_.LoadOf(t);
      ASSERT_EQ(ours.active_prefill_tokens, theirs.active_prefill_tokens) << "target " << t;
      ASSERT_EQ(ours.active_decode_blocks, theirs.active_decode_blocks) << "target " << t;
      ASSERT_EQ(ours.active_requests, theirs.active_requests) << "target " << t;
      ASSERT_EQ(live_blocks[static_cast<uint32_t>(slots_[t])], model_.LivePrefix(t, chain))
          << "target " << t;
    }
  }

  void FinishAll() {
    while (!model_.live.empty()) {
      const BookingId id = model_.live.begin()->first;
      Check(ledger_.Finish(id), model_.Finish(id));
    }
    CompareLoads();
    ASSERT_EQ(ledger_.ChainNodeCount(), 0u);
  }

 private:
  static constexpr uint32_t kTargets = 4;

  uint64_t Draw(uint64_t bound) { return random_() % bound; }

  // Few hashes and short chains: shared prefixes, splits and merges are the point.
  std::vector<SequenceHash> AChain() {
    std::vector<SequenceHash> chain(Draw(7));
    for (auto& hash : chain) hash = SequenceHash{Draw(2)};
    return chain;
  }

  std::optional<double> AFraction() {
    if (Draw(2) == 0) return std::nullopt;
    return static_cast<double>(Draw(9)) / 8;
  }

  // Mostly live ones, sometimes a stale one.
  BookingId AnId() {
    if (handed_out_.empty()) return kNoBooking;
    const size_t recent = std::min<size_t>(handed_out_.size(), 40);
    return handed_out_[handed_out_.size() - 1 - Draw(recent)];
  }

  void Add() {
    NaiveLedger::Request r;
    r.target = static_cast<uint32_t>(Draw(kTargets));
    r.chain = AChain();
    r.shares = Draw(8) != 0;
    r.prefill_tokens = Draw(50);
    r.isl_tokens = r.chain.size() * kBlockSize + Draw(kBlockSize);
    r.expected = Draw(3) == 0 ? 32 : 0;
    r.last_sign = now_;
    LoadLedger::NewBooking booking{.target = slots_[r.target],
                                   .chain = r.chain,
                                   .share_prefixes = r.shares,
                                   .prefill_tokens = r.prefill_tokens,
                                   .isl_tokens = r.isl_tokens,
                                   .block_size_tokens = kBlockSize};
    if (r.expected > 0) booking.expected_output_tokens = r.expected;
    const auto id = ledger_.Add(booking, now_);
    ASSERT_TRUE(id.has_value());
    ASSERT_FALSE(model_.live.contains(*id));
    handed_out_.push_back(*id);
    model_.live[*id] = std::move(r);
  }

  void RemoveTarget() {
    const auto target = static_cast<uint32_t>(Draw(kTargets));
    ledger_.RemoveTarget(slots_[target]);
    slots_[target] = ledger_.AddTarget();
    model_.RemoveTarget(target);
  }

  void Expire() {
    if (Draw(10) == 0) now_ += seconds(Draw(400));
    std::vector<BookingId> ours;
    ledger_.Expire(now_, &ours);
    auto theirs = model_.Expire(now_);
    std::sort(ours.begin(), ours.end());
    ASSERT_EQ(ours, theirs);
  }

  void Check(bool ours, bool theirs) { ASSERT_EQ(ours, theirs); }

  std::mt19937_64 random_;
  LoadLedger ledger_{{.idle_expiry = kExpiry, .track_output_blocks = true}};
  NaiveLedger model_;
  std::vector<TargetSlot> slots_;
  std::vector<BookingId> handed_out_;
  MonotonicTime now_{};
};

TEST(LoadLedgerPropertyTest, AgreesWithNaiveLedgerOnRandomHistories) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Histories histories(seed);
    for (int step = 0; step < 1000; ++step) {
      SCOPED_TRACE(fmt::format("seed={} step={}", seed, step));
      histories.Step();
      if (step % 4 == 0) histories.CompareLoads();
      if (::testing::Test::HasFatalFailure()) return;
    }
    SCOPED_TRACE(fmt::format("seed={} end", seed));
    histories.FinishAll();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
