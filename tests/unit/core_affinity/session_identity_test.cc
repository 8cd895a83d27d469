#include "core/affinity/session_identity.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "support/prompt_beginnings.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using testing::OwnedPrompt;
using Source = SessionIdentifier::Source;
using Tokens = std::vector<TokenId>;

constexpr uint64_t kTargets = 8;

class SessionIdentityTest : public ::testing::Test {
 protected:
  static Tokens From(TokenId first, size_t count) {
    Tokens tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  SessionIdentifier::Identity Identify(std::string_view caller_id, const Tokens& tokens) {
    now_ += milliseconds(10);
    return sessions_.Identify(caller_id, OwnedPrompt(tokens, {}).View(), kTargets, now_);
  }

  SessionIdentifier::Identity Peek(std::string_view caller_id, const Tokens& tokens) {
    return sessions_.Peek(caller_id, OwnedPrompt(tokens, {}).View());
  }

  MonotonicTime now_{};
  SessionIdentifier sessions_{{.prefix_tokens = 64}};
};

TEST_F(SessionIdentityTest, TheCallersIdWinsAndIsNeverHot) {
  for (int i = 0; i < 200; ++i) {
    const auto identity = Identify("agent-1", From(0, 100));
    ASSERT_EQ(identity.key, KeyOfCallerId("agent-1"));
    ASSERT_EQ(identity.source, Source::kCaller);
    ASSERT_TRUE(identity.Pins());
  }
  EXPECT_EQ(sessions_.LineageStats().aliases, 0u) << "its prompts derive nothing";
}

TEST_F(SessionIdentityTest, WithoutIdThePromptSays) {
  EXPECT_EQ(Identify("", From(0, 20)).source, Source::kStart);
  EXPECT_EQ(Identify("", From(0, 30)).source, Source::kEnd);
  EXPECT_EQ(Identify("", From(0, 70)).source, Source::kEnd);
  EXPECT_EQ(Identify("", From(0, 90)).source, Source::kAlias);
  EXPECT_EQ(Identify("", From(500, 70)).source, Source::kPrefix);
  EXPECT_EQ(SessionSourceName(Identify("", {}).source), "none");
  EXPECT_FALSE(Identify("", {}).Pins());
}

TEST_F(SessionIdentityTest, DerivingIsOffWithoutN) {
  SessionIdentifier off({});
  const OwnedPrompt prompt(From(0, 100), {});
  EXPECT_EQ(off.Identify("", prompt.View(), kTargets, now_).key, kNoSession);
  EXPECT_EQ(off.Peek("", prompt.View()).key, kNoSession);
  EXPECT_EQ(off.Identify("a", prompt.View(), kTargets, now_).source, Source::kCaller);
}

TEST_F(SessionIdentityTest, PeekingRemembersNothing) {
  const auto advised = Peek("", From(0, 20));
  EXPECT_EQ(Peek("", From(0, 30)).source, Source::kStart);
  EXPECT_EQ(sessions_.LineageStats().ends, 0u);
  EXPECT_EQ(Identify("", From(0, 20)).key, advised.key);
  EXPECT_EQ(Peek("", From(0, 30)).key, advised.key);
}

TEST_F(SessionIdentityTest, ACommonPrefixTurnsHotAndStopsPinning) {
  int pinned = 0;
  for (TokenId i = 0; i < 100; ++i) {
    Tokens prompt = From(0, 64);
    prompt.push_back(1000 + i);
    pinned += Identify("", prompt).Pins() ? 1 : 0;
  }
  // Until it is a crowd: 32 requests, of which the first have faded a little.
  EXPECT_GE(pinned, 31);
  EXPECT_LE(pinned, 33);
  EXPECT_FALSE(Peek("", From(0, 64)).Pins());
  EXPECT_EQ(sessions_.hot_keys().TurnedHotTotal(), 1u);
}

TEST_F(SessionIdentityTest, AWarmUpPromptDoesNotMakeAllConversationsOne) {
  Identify("", {1});  // as a health check sends it
  const auto turn = [&](TokenId conversation, size_t length) {
    Tokens prompt = {1};
    const Tokens own = From(1000 * (conversation + 1), length);
    prompt.insert(prompt.end(), own.begin(), own.end());
    return Identify("", prompt);
  };
  for (TokenId c = 0; c < 500; ++c) turn(c, 20);  // they join it, it turns hot
  std::vector<SessionKey> keys;
  std::set<SessionKey> distinct;
  for (TokenId c = 0; c < 500; ++c) {
    const auto identity = turn(c, 40);
    keys.push_back(identity.key);
    distinct.insert(identity.key);
    EXPECT_TRUE(identity.Pins()) << c;
  }
  EXPECT_EQ(distinct.size(), 500u) << "each starts its own session";
  for (const size_t length : {50, 70, 90}) {
    for (TokenId c = 0; c < 500; ++c) ASSERT_EQ(turn(c, length).key, keys[c]) << "and keeps it";
  }
}

}  // namespace
}  // namespace kvrouter
