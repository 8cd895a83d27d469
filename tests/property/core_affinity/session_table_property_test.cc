#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "core/affinity/session_table.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

// Sessions as a map of plain records, holds as who holds what.
struct NaiveSession {
  uint64_t life = 0;  // which binding this is
  uint64_t worker = 0;
  uint64_t leases = 0;
  MonotonicTime deadline{};
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  void Step() {
    now_ += std::chrono::milliseconds(1 + random_() % 4000);  // no two deadlines are equal
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return Bind();
      case 3:
      case 4:
        return Release();
      case 5:
        return Invalidate();
      case 6:
        return Forget();
      default:
        return Sweep();
    }
  }

  void Compare() {
    uint64_t leases = 0;
    for (uint64_t key = 1; key <= kKeys; ++key) {
      const auto it = sessions_.find(key);
      const bool bound = it != sessions_.end() && !IsExpired(it->second);
      const auto seen = table_.Find(SessionKey{key}, now_);
      ASSERT_EQ(seen.has_value(), bound) << key;
      if (bound) {
        ASSERT_EQ(static_cast<uint64_t>(seen->target.worker), it->second.worker);
      }
      if (it != sessions_.end()) leases += it->second.leases;
    }
    ASSERT_EQ(table_.GetStats().sessions, sessions_.size());
    ASSERT_EQ(table_.GetStats().leases, leases);
  }

  void ReleaseAll() {
    while (!holds_.empty()) Release();
    now_ += seconds(60);
    Sweep();
    ASSERT_EQ(table_.GetStats().sessions, 0u);
    ASSERT_EQ(table_.GetStats().leases, 0u);
  }

 private:
  static constexpr uint64_t kKeys = 12;
  static constexpr uint32_t kMaxSessions = 8;

  struct Held {
    SessionHold hold{};
    uint64_t key = 0;
    uint64_t life = 0;
  };

  bool IsExpired(const NaiveSession& s) const { return s.leases == 0 && s.deadline <= now_; }

  NaiveSession* Live(const Held& held) {
    const auto it = sessions_.find(held.key);
    return it != sessions_.end() && it->second.life == held.life ? &it->second : nullptr;
  }

  void DropExpired() {
    std::erase_if(sessions_, [&](const auto& entry) { return IsExpired(entry.second); });
  }

  // False: all are at work.
  bool MakeRoom() {
    if (sessions_.size() < kMaxSessions) return true;
    DropExpired();
    if (sessions_.size() < kMaxSessions) return true;
    auto oldest = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      if (it->second.leases > 0) continue;
      if (oldest == sessions_.end() || it->second.deadline < oldest->second.deadline) oldest = it;
    }
    if (oldest == sessions_.end()) return false;
    sessions_.erase(oldest);
    return true;
  }

  void Bind() {
    const uint64_t key = 1 + random_() % kKeys;
    const uint64_t worker = 1 + random_() % 3;
    const auto it = sessions_.find(key);
    if (it != sessions_.end() && (IsExpired(it->second) || it->second.worker != worker))
      sessions_.erase(it);
    bool expect_hold = true;
    if (sessions_.contains(key)) {
      ++sessions_[key].leases;
    } else if (MakeRoom()) {
      sessions_[key] = {.life = ++lives_, .worker = worker, .leases = 1};
    } else {
      expect_hold = false;
    }
    const SessionHold hold =
        table_.Bind(SessionKey{key}, {.target = {.worker = WorkerId{worker}}}, now_);
    ASSERT_EQ(hold != kNoHold, expect_hold);
    if (expect_hold) holds_.push_back({.hold = hold, .key = key, .life = sessions_[key].life});
  }

  Held TakeHold() {
    const size_t place = random_() % holds_.size();
    const Held held = holds_[place];
    holds_[place] = holds_.back();
    holds_.pop_back();
    return held;
  }

  void Release() {
    if (holds_.empty()) return;
    now_ += std::chrono::nanoseconds(1);
    const Held held = TakeHold();
    NaiveSession* const session = Live(held);
    ASSERT_EQ(table_.Release(held.hold, now_), session != nullptr);
    if (session == nullptr) return;
    --session->leases;
    session->deadline = now_ + seconds(60);
  }

  void Invalidate() {
    if (holds_.empty()) return;
    const Held held = TakeHold();
    NaiveSession* const session = Live(held);
    ASSERT_EQ(table_.Invalidate(held.hold), session != nullptr);
    if (session != nullptr) sessions_.erase(held.key);
  }

  void Forget() {
    const uint64_t key = 1 + random_() % kKeys;
    ASSERT_EQ(table_.Forget(SessionKey{key}), sessions_.erase(key) == 1);
  }

  void Sweep() {
    table_.Sweep(now_);
    DropExpired();
  }

  std::mt19937_64 random_;
  MonotonicTime now_{};
  SessionTable table_{{.idle_ttl = seconds(60), .max_sessions = kMaxSessions}};
  std::map<uint64_t, NaiveSession> sessions_;
  std::vector<Held> holds_;
  uint64_t lives_ = 0;
};

TEST(SessionTablePropertyTest, AgreesWithPlainRecordsOnRandomHistories) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    History history(seed);
    for (int step = 0; step < 500; ++step) {
      SCOPED_TRACE(fmt::format("seed={} step={}", seed, step));
      history.Step();
      if (::testing::Test::HasFatalFailure()) return;
      history.Compare();
      if (::testing::Test::HasFatalFailure()) return;
    }
    SCOPED_TRACE(fmt::format("seed={} end", seed));
    history.ReleaseAll();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
