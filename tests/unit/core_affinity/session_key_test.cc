#include "core/affinity/session_key.h"

#include <gtest/gtest.h>

#include <string>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

std::string IdOf(const SessionIdSources& sources) {
  const auto id = CallerSessionId(sources);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.ok() ? std::string(*id) : "";
}

TEST(SessionKeyTest, TheFirstNamedSourceWins) {
  SessionIdSources sources{.dynamo_session_id = "dynamo",
                           .claude_code_agent_id = "agent",
                           .claude_code_session_id = "claude",
                           .thread_id = "thread",
                           .session_id = "session"};
  EXPECT_EQ(IdOf(sources), "dynamo");
  sources.dynamo_session_id = " \t";
  EXPECT_EQ(IdOf(sources), "agent");
  sources.claude_code_agent_id = "";
  EXPECT_EQ(IdOf(sources), "claude");
  sources.claude_code_session_id = "";
  EXPECT_EQ(IdOf(sources), "thread");
  sources.thread_id = "";
  EXPECT_EQ(IdOf(sources), "session");
  sources.session_id = "";
  EXPECT_EQ(IdOf(sources), "");
}

TEST(SessionKeyTest, AnAgentCountsOnlyBesideItsSession) {
  EXPECT_EQ(IdOf({.claude_code_agent_id = "agent", .session_id = "session"}), "session");
}

TEST(SessionKeyTest, IdsAreTrimmedAndBounded) {
  EXPECT_EQ(IdOf({.dynamo_session_id = "  a b\r\n"}), "a b");
  const std::string longest(kMaxSessionIdBytes, 'x');
  EXPECT_EQ(IdOf({.dynamo_session_id = longest}), longest);
  EXPECT_EQ(IdOf({.dynamo_session_id = longest + " "}), longest) << "after trimming";
  const auto status = CallerSessionId({.dynamo_session_id = longest + "x"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest);
  EXPECT_EQ(status.message(), "session id must have at most 256 bytes, got 257");
}

TEST(SessionKeyTest, KeysAreStableAndNeverNone) {
  EXPECT_EQ(KeyOfCallerId("a"), KeyOfCallerId("a"));
  EXPECT_NE(KeyOfCallerId("a"), KeyOfCallerId("b"));
  EXPECT_NE(KeyOfHash(0), kNoSession);
  EXPECT_EQ(DerivedSessionName(SessionKey{0xc0ffee}), "prefix-0000000000c0ffee");
}

}  // namespace
}  // namespace kvrouter
