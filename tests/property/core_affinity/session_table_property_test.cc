#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "core/affinity/session_table.h"

namespace kvrouter {
namespace {

using Outcome = SessionTable::Outcome;
using std::chrono::seconds;

// Sessions as a map of plain records, holds as who holds what.
struct NaiveTable {
  struct Session {
    bool initialising = false;
    uint64_t life = 0;  // which binding this is
    uint64_t worker = 0;
    uint64_t leases = 0;
    MonotonicTime deadline{};
    std::vector<TicketId> waiters = {};
  };
  std::map<uint64_t, Session> sessions;
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  void Step() {
    now_ += std::chrono::milliseconds(random_() % 4000);
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return Acquire();
      case 3:
        return Commit();
      case 4:
      case 5:
        return Release();
      case 6:
        return Invalidate();
      default:
        return Sweep();
    }
  }

  void Compare() {
    SessionTable::Stats expected;
    for (const auto& [key, session] : naive_.sessions) {
      ++expected.sessions;
      expected.initialising += session.initialising ? 1 : 0;
      expected.leases += session.leases;
      expected.waiters += session.waiters.size();
      const auto seen = table_.Peek(SessionKey{key}, now_);
      const bool bound = !session.initialising && (session.leases > 0 || session.deadline > now_);
      ASSERT_EQ(seen.has_value(), bound) << key;
      if (bound) {
        ASSERT_EQ(static_cast<uint64_t>(seen->target.worker), session.worker);
      }
    }
    const auto stats = table_.GetStats();
    ASSERT_EQ(stats.sessions, expected.sessions);
    ASSERT_EQ(stats.initialising, expected.initialising);
    ASSERT_EQ(stats.leases, expected.leases);
    ASSERT_EQ(stats.waiters, expected.waiters);
  }

  void ReleaseAll() {
    while (!holds_.empty()) Release();
    now_ += seconds(60);
    Sweep();
    ASSERT_EQ(table_.GetStats().sessions, 0u);
    ASSERT_EQ(table_.GetStats().leases, 0u);
    ASSERT_EQ(table_.GetStats().waiters, 0u);
  }

 private:
  static constexpr uint64_t kKeys = 12;
  static constexpr uint32_t kMaxSessions = 8;

  struct Held {
    SessionHold hold{};
    uint64_t key = 0;
    uint64_t life = 0;
  };

  NaiveTable::Session* Live(const Held& held) {
    const auto it = naive_.sessions.find(held.key);
    return it != naive_.sessions.end() && it->second.life == held.life ? &it->second : nullptr;
  }

  bool IsIdle(const NaiveTable::Session& s) { return !s.initialising && s.leases == 0; }

  void DropExpired() {
    std::erase_if(naive_.sessions, [&](const auto& entry) {
      return IsIdle(entry.second) && entry.second.deadline <= now_;
    });
  }

  Outcome ExpectedInitialise(uint64_t key) {
    if (naive_.sessions.size() >= kMaxSessions) {
      DropExpired();
      if (naive_.sessions.size() >= kMaxSessions) {
        auto oldest = naive_.sessions.end();
        for (auto it = naive_.sessions.begin(); it != naive_.sessions.end(); ++it) {
          if (!IsIdle(it->second)) continue;
          if (oldest == naive_.sessions.end() || it->second.deadline < oldest->second.deadline) {
            oldest = it;
          }
        }
        if (oldest == naive_.sessions.end()) return Outcome::kUnbound;
        naive_.sessions.erase(oldest);
      }
    }
    naive_.sessions[key] = {.initialising = true, .life = ++lives_};
    return Outcome::kInitialise;
  }

  Outcome ExpectedAcquire(uint64_t key, TicketId ticket) {
    const auto it = naive_.sessions.find(key);
    if (it == naive_.sessions.end()) return ExpectedInitialise(key);
    if (it->second.initialising) {
      it->second.waiters.push_back(ticket);
      return Outcome::kWait;
    }
    if (it->second.leases == 0 && it->second.deadline <= now_) {
      naive_.sessions.erase(it);
      return ExpectedInitialise(key);
    }
    ++it->second.leases;
    return Outcome::kLease;
  }

  void Acquire() {
    now_ += std::chrono::nanoseconds(1);  // no two deadlines are equal
    const uint64_t key = 1 + random_() % kKeys;
    const TicketId ticket{++tickets_};
    const Outcome expected = ExpectedAcquire(key, ticket);
    const auto acquired = table_.Acquire({.key = SessionKey{key}, .ticket = ticket}, now_);
    ASSERT_EQ(acquired.outcome, expected);
    if (expected == Outcome::kLease || expected == Outcome::kInitialise) {
      holds_.push_back({.hold = acquired.hold, .key = key, .life = naive_.sessions[key].life});
    }
    if (expected == Outcome::kLease) {
      ASSERT_EQ(static_cast<uint64_t>(acquired.binding->target.worker),
                naive_.sessions[key].worker);
    }
  }

  Held TakeHold(bool keep) {
    const size_t place = random_() % holds_.size();
    const Held held = holds_[place];
    if (!keep) {
      holds_[place] = holds_.back();
      holds_.pop_back();
    }
    return held;
  }

  void ExpectWoken(std::vector<TicketId>* waiters) {
    ASSERT_EQ(woken_, *waiters);
    waiters->clear();
    woken_.clear();
  }

  void Commit() {
    if (holds_.empty()) return;
    const Held held = TakeHold(true);
    const uint64_t worker = 1 + random_() % 5;
    NaiveTable::Session* const session = Live(held);
    ASSERT_EQ(table_.Commit(held.hold, {.target = {.worker = WorkerId{worker}}}, &woken_),
              session != nullptr);
    if (session == nullptr) return;
    session->worker = worker;
    if (session->initialising) session->leases = 1;
    session->initialising = false;
    ExpectWoken(&session->waiters);
  }

  void Release() {
    if (holds_.empty()) return;
    now_ += std::chrono::nanoseconds(1);
    const Held held = TakeHold(false);
    NaiveTable::Session* const session = Live(held);
    ASSERT_EQ(table_.Release(held.hold, now_, &woken_), session != nullptr);
    if (session == nullptr) return;
    if (session->initialising) {
      ExpectWoken(&session->waiters);
      naive_.sessions.erase(held.key);
      return;
    }
    --session->leases;
    session->deadline = now_ + seconds(60);
  }

  void Invalidate() {
    if (holds_.empty()) return;
    const Held held = TakeHold(false);
    NaiveTable::Session* const session = Live(held);
    ASSERT_EQ(table_.Invalidate(held.hold, &woken_), session != nullptr);
    if (session == nullptr) return;
    ExpectWoken(&session->waiters);
    naive_.sessions.erase(held.key);
  }

  void Sweep() {
    table_.Sweep(now_);
    DropExpired();
  }

  std::mt19937_64 random_;
  MonotonicTime now_{};
  SessionTable table_{{.idle_ttl = seconds(60), .max_sessions = kMaxSessions}};
  NaiveTable naive_;
  std::vector<Held> holds_;
  std::vector<TicketId> woken_;
  uint64_t lives_ = 0;
  uint64_t tickets_ = 0;
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
