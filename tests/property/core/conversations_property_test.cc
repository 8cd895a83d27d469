// A thousand conversations through the whole router, which is told no session: each stays where it
// began, none is taken for another, and what many begin with herds nobody.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using Tokens = std::vector<TokenId>;

constexpr uint64_t kN = 256;
constexpr uint64_t kWorkers = 8;

enum class Kind {
  kOwn,            // shares nothing
  kShortSystem,    // begins with a system prompt shorter than N
  kLongSystem,     // with one longer than N
  kForksAtAnEnd,   // with the whole first prompt of another, then differs
  kForksElsewhere  // with a part of such a prompt, then differs
};

struct Conversation {
  Kind kind = Kind::kOwn;
  Tokens tokens;  // what it will be; each turn sends more of it
  size_t sent = 0;
  std::vector<size_t> ends = {};  // of the prompts sent
  std::optional<SessionKey> key = {};
  std::optional<Target> target = {};
  bool was_hot = false;
};

bool Begins(const Tokens& tokens, size_t length, const Tokens& other, size_t other_length) {
  return length <= other_length &&
         std::equal(tokens.begin(), tokens.begin() + static_cast<long>(length), other.begin());
}

// Whether one's whole earlier prompt begins the other's, or they share N tokens.
bool MayBeOne(const Conversation& a, const Conversation& b) {
  if (std::min(a.sent, b.sent) >= kN && Begins(a.tokens, kN, b.tokens, b.sent)) return true;
  const auto any_end_begins = [](const Conversation& earlier, const Conversation& later) {
    return std::any_of(earlier.ends.begin(), earlier.ends.end(), [&](size_t end) {
      return end < kN && Begins(earlier.tokens, end, later.tokens, later.sent);
    });
  };
  return any_end_begins(a, b) || any_end_begins(b, a);
}

class Crowd {
 public:
  Crowd(uint64_t seed, double hot_share_of_mean)
      : random_(seed), router_(ConfigOf(seed, hot_share_of_mean), nullptr) {
    for (uint64_t id = 0; id < kWorkers; ++id) EXPECT_TRUE(router_.UpsertWorker(AWorker(id)).ok());
    const Tokens short_system = RandomTokens(Draw(2) == 0 ? 6 * kBlockSize : 6 * kBlockSize + 5);
    const Tokens long_system = RandomTokens(kN + 40);
    for (int i = 0; i < 500; ++i) Add(Kind::kOwn, {}, AStep());
    for (int i = 0; i < 200; ++i) Add(Kind::kShortSystem, short_system, AStep());
    for (int i = 0; i < 200; ++i) Add(Kind::kLongSystem, long_system, AStep());
    for (size_t i = 0; i < 100; ++i) {
      const bool at_end = i % 2 == 0;
      const Conversation& base = conversations_[i];
      const size_t shared = at_end ? base.sent : Draw(base.sent);
      Add(at_end ? Kind::kForksAtAnEnd : Kind::kForksElsewhere,
          Tokens(base.tokens.begin(), base.tokens.begin() + static_cast<long>(shared)), AStep());
    }
  }

  void Run() {
    std::vector<size_t> going(conversations_.size());
    std::iota(going.begin(), going.end(), size_t{0});
    // Whoever is to be forked at its end has sent its first prompt before.
    for (size_t i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(Turn(&conversations_[i]));
    for (size_t i = 0; i < 100; ++i) Grow(&conversations_[i]);
    while (!going.empty()) {
      const size_t place = Draw(going.size());
      Conversation& conversation = conversations_[going[place]];
      ASSERT_NO_FATAL_FAILURE(Turn(&conversation));
      if (conversation.sent == conversation.tokens.size()) {
        going[place] = going.back();
        going.pop_back();
      }
      Grow(&conversation);
    }
    while (!live_.empty()) FinishOldest();
    ExpectIdle(router_);
  }

  const std::vector<Conversation>& conversations() const { return conversations_; }
  uint64_t key_changes() const { return key_changes_; }
  uint64_t moves() const { return moves_; }
  DerivedSessionFigures Figures() const { return router_.Snapshot().front().derived_sessions; }
  double MaxOverMean() const {
    const uint64_t total = std::accumulate(tokens_of_.begin(), tokens_of_.end(), uint64_t{0});
    const uint64_t max = *std::max_element(tokens_of_.begin(), tokens_of_.end());
    return static_cast<double>(max) * kWorkers / static_cast<double>(total);
  }

 private:
  struct Live {
    BookingId booking{};
    Tokens prompt;
    Target target;
  };

  static RouterConfig ConfigOf(uint64_t seed, double hot_share_of_mean) {
    RouterConfig config;
    config.random_seed = seed;
    config.sessions.affinity_ttl = std::chrono::hours(1);
    config.sessions.prefix_tokens = kN;
    config.sessions.hot_share_of_mean = hot_share_of_mean;
    return config;
  }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  // From far below N to far above; block-aligned or not.
  size_t AStep() { return Draw(3) == 0 ? kBlockSize * (1 + Draw(8)) : 1 + Draw(130); }
  Tokens RandomTokens(size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_());
    return tokens;
  }

  void Add(Kind kind, Tokens beginning, size_t first_step) {
    Conversation conversation{.kind = kind, .tokens = std::move(beginning)};
    conversation.sent = conversation.tokens.size() + first_step;
    const Tokens own = RandomTokens(4 * kN);
    conversation.tokens.insert(conversation.tokens.end(), own.begin(), own.end());
    conversations_.push_back(std::move(conversation));
  }

  void Grow(Conversation* conversation) {
    conversation->sent = std::min(conversation->sent + AStep(), conversation->tokens.size());
  }

  void Turn(Conversation* conversation) {
    now_ += std::chrono::milliseconds(20);
    Tokens prompt(conversation->tokens.begin(),
                  conversation->tokens.begin() + static_cast<long>(conversation->sent));
    const RouteDecision decision = Decide(router_, ARequest(prompt), now_);
    ASSERT_NE(decision.session.key, kNoSession);
    conversation->ends.push_back(conversation->sent);
    conversation->was_hot |= decision.session.outcome == SessionOutcome::kHot;
    tokens_of_[static_cast<size_t>(decision.target.worker)] += prompt.size();
    if (conversation->key && *conversation->key != decision.session.key) ++key_changes_;
    if (conversation->target && *conversation->target != decision.target && !conversation->was_hot)
      ++moves_;
    conversation->key = decision.session.key;
    conversation->target = decision.target;
    live_.push_back(
        {.booking = decision.booking, .prompt = std::move(prompt), .target = decision.target});
    while (live_.size() > 50) FinishOldest();
  }

  void FinishOldest() {
    const Live oldest = std::move(live_.front());
    live_.pop_front();
    EXPECT_EQ(router_.Apply(StoredEvent(oldest.prompt, oldest.target)).status, ApplyStatus::kOk);
    EXPECT_TRUE(router_.PrefillComplete(oldest.booking, now_));
    EXPECT_TRUE(router_.Finish(oldest.booking, now_));
  }

  std::mt19937_64 random_;
  Router router_;
  std::vector<Conversation> conversations_;
  std::deque<Live> live_;
  std::array<uint64_t, kWorkers> tokens_of_{};
  MonotonicTime now_{};
  uint64_t key_changes_ = 0;
  uint64_t moves_ = 0;
};

TEST(ConversationsPropertyTest, StayWhereTheyBeganAndAreNotTakenForEachOther) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Crowd crowd(seed, /*hot_share_of_mean=*/1);
    ASSERT_NO_FATAL_FAILURE(crowd.Run());
    EXPECT_EQ(crowd.key_changes(), 0u);
    EXPECT_EQ(crowd.moves(), 0u);
    std::map<SessionKey, std::vector<const Conversation*>> by_key;
    for (const Conversation& conversation : crowd.conversations()) {
      by_key[*conversation.key].push_back(&conversation);
      EXPECT_EQ(conversation.was_hot && conversation.kind != Kind::kLongSystem, false);
    }
    size_t joined = 0;
    for (const auto& entry : by_key) {
      const std::vector<const Conversation*>& members = entry.second;
      // Each of the others has something in common with one that was there.
      for (size_t i = 1; i < members.size(); ++i) {
        EXPECT_TRUE(std::any_of(members.begin(), members.end(), [&](const Conversation* other) {
          return other != members[i] && MayBeOne(*members[i], *other);
        }));
        EXPECT_TRUE(members[i]->kind == Kind::kForksAtAnEnd ||
                    members[i]->kind == Kind::kLongSystem)
            << "kind " << static_cast<int>(members[i]->kind);
      }
      if (members.front()->kind != Kind::kLongSystem) joined += members.size() - 1;
    }
    EXPECT_GT(joined, 10u) << "of 50 that begin with a whole earlier prompt";
  }
}

TEST(ConversationsPropertyTest, AHotKeyDoesNotHerd) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Crowd crowd(seed, /*hot_share_of_mean=*/1);
    ASSERT_NO_FATAL_FAILURE(crowd.Run());
    EXPECT_EQ(crowd.Figures().turned_hot_total, 1u);
    EXPECT_LE(crowd.MaxOverMean(), 1.4);
  }
  Crowd herd(0, /*hot_share_of_mean=*/1e9);
  ASSERT_NO_FATAL_FAILURE(herd.Run());
  EXPECT_GT(herd.MaxOverMean(), 1.8) << "what the rule is for; else the above shows nothing";
}

}  // namespace
}  // namespace kvrouter
