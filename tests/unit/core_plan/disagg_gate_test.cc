#include "core/plan/disagg_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/affinity/session_identity.h"
#include "core/plan/recent_continuations.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;
using Measure = LengthGate::Measure;
using Policy = ConditionalDisagg::Policy;

GateConfig LengthOf(uint64_t min_tokens, Measure measure = Measure::kPrompt) {
  GateConfig config;
  config.length = {.min_remote_prefill_tokens = min_tokens, .measure = measure};
  return config;
}

GateConfig Continuations() {
  GateConfig config = LengthOf(1000);
  config.length.local_continuations = true;
  return config;
}

GateConfig Conditional(Policy policy) {
  GateConfig config;
  config.conditional = {.enabled = true, .policy = policy};
  if (policy != Policy::kIslBounding) config.conditional.prefill_busy_threshold = 2.0;
  return config;
}

GateConfig Guarded(Policy policy, double decode_busy_threshold) {
  GateConfig config = Conditional(policy);
  config.conditional.decode_busy_threshold = decode_busy_threshold;
  return config;
}

GateInput Prompt(uint64_t isl_tokens) { return {.isl_tokens = isl_tokens}; }

GateInput Prompt(uint64_t isl_tokens, DecodeAdvice decode) {
  return {.isl_tokens = isl_tokens, .decode = decode};
}

GateInput WithPrefill(GateInput input, PrefillAdvice prefill) {
  input.prefill = prefill;
  return input;
}

GateInput SeenAgo(uint64_t isl_tokens, std::chrono::nanoseconds idle) {
  return {.isl_tokens = isl_tokens, .session_idle = idle};
}

struct Row {
  const char* what;
  GateConfig config;
  GateInput input;
  bool remote;
  GateRule rule;
  bool input_missing = false;
};

void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    ASSERT_TRUE(Validate(row.config).ok()) << Validate(row.config);
    const GateDecision decision = DecideGate(row.config, row.input);
    EXPECT_EQ(decision.remote, row.remote) << DescribeGate(decision);
    EXPECT_EQ(GateRuleName(decision.rule), GateRuleName(row.rule)) << DescribeGate(decision);
    EXPECT_EQ(decision.input_missing, row.input_missing);
  }
}

TEST(DisaggGateTest, LengthIsComparedStrictly) {
  ExpectRows({
      {"off", LengthOf(0), Prompt(1), true, GateRule::kDefault},
      {"one below", LengthOf(16384), Prompt(16383), false, GateRule::kShortPrompt},
      {"at", LengthOf(16384), Prompt(16384), true, GateRule::kDefault},
      {"one above", LengthOf(16384), Prompt(16385), true, GateRule::kDefault},
      {"empty", LengthOf(1), Prompt(0), false, GateRule::kShortPrompt},
      {"never remote", LengthOf(100'000'000), Prompt(1'000'000), false, GateRule::kShortPrompt},
  });
}

TEST(DisaggGateTest, WithoutAPrefillPoolAllIsLocal) {
  GateInput gone = Prompt(1'000'000);
  gone.prefill_pool_active = false;
  ExpectRows({
      {"length", LengthOf(16384), gone, false, GateRule::kNoPrefillPool},
      {"off", LengthOf(0), gone, false, GateRule::kNoPrefillPool},
      {"conditional", Conditional(Policy::kIslOrLoad), gone, false, GateRule::kNoPrefillPool},
  });
}

TEST(DisaggGateTest, UncachedLengthIsWhatTheDecodeWorkerDoesNotHold) {
  const GateConfig gate = LengthOf(1000, Measure::kUncached);
  ExpectRows({
      {"one below", gate, Prompt(5000, {.cached_tokens = 4001}), false, GateRule::kShortPrompt},
      {"at", gate, Prompt(5000, {.cached_tokens = 4000}), true, GateRule::kDefault},
      {"one above", gate, Prompt(5000, {.cached_tokens = 3999}), true, GateRule::kDefault},
      {"all", gate, Prompt(5000, {.cached_tokens = 9999}), false, GateRule::kShortPrompt},
      {"unknown, short", gate, Prompt(999), false, GateRule::kShortPrompt, true},
      {"unknown, long", gate, Prompt(1000), true, GateRule::kDefault, true},
      {"by prompt, cached counts for nothing", LengthOf(1000),
       Prompt(5000, {.cached_tokens = 5000}), true, GateRule::kDefault},
  });
}

TEST(DisaggGateTest, ContinuationsWithinTheHourStayLocal) {
  GateConfig no_length = Continuations();
  no_length.length.min_remote_prefill_tokens = 0;
  GateConfig not_wanted = LengthOf(1000);
  ExpectRows({
      {"fresh", Continuations(), SeenAgo(5000, seconds(0)), false, GateRule::kContinuation},
      {"one below", Continuations(), SeenAgo(5000, seconds(3599)), false, GateRule::kContinuation},
      {"at", Continuations(), SeenAgo(5000, seconds(3600)), true, GateRule::kDefault},
      {"expired", Continuations(), SeenAgo(5000, seconds(3601)), true, GateRule::kDefault},
      {"first turn", Continuations(), Prompt(5000), true, GateRule::kDefault},
      {"length speaks first", Continuations(), SeenAgo(999, seconds(1)), false,
       GateRule::kShortPrompt},
      {"no effect without a length", no_length, SeenAgo(5000, seconds(1)), true,
       GateRule::kDefault},
      {"switched off", not_wanted, SeenAgo(5000, seconds(1)), true, GateRule::kDefault},
  });
}

TEST(DisaggGateTest, IslBoundingNeedsFewNewTokensAndASmallShare) {
  const GateConfig gate = Conditional(Policy::kIslBounding);
  ExpectRows({
      {"tokens one below", gate, Prompt(10'000, {.cached_tokens = 7953}), false,
       GateRule::kFewNewTokens},
      {"tokens at", gate, Prompt(10'000, {.cached_tokens = 7952}), true, GateRule::kDefault},
      {"tokens one above", gate, Prompt(10'000, {.cached_tokens = 7951}), true, GateRule::kDefault},
      {"share one below", gate, Prompt(1000, {.cached_tokens = 301}), false,
       GateRule::kFewNewTokens},
      {"share at", gate, Prompt(1000, {.cached_tokens = 300}), true, GateRule::kDefault},
      {"share one above", gate, Prompt(1000, {.cached_tokens = 299}), true, GateRule::kDefault},
      {"all cached", gate, Prompt(1000, {.cached_tokens = 1000}), false, GateRule::kFewNewTokens},
      {"more cached than asked", gate, Prompt(1000, {.cached_tokens = 2000}), false,
       GateRule::kFewNewTokens},
  });
}

TEST(DisaggGateTest, ConditionalIsSkippedWhereItCannotJudge) {
  const GateConfig gate = Conditional(Policy::kIslBounding);
  GateInput pinned = Prompt(100, {.cached_tokens = 100});
  pinned.prefill_pinned = true;
  ExpectRows({
      {"prefill pinned", gate, pinned, true, GateRule::kPrefillPinned},
      {"empty prompt", gate, Prompt(0, {}), true, GateRule::kEmptyPrompt},
      {"no decode pick", gate, Prompt(100), true, GateRule::kNoAdvice, true},
  });
}

TEST(DisaggGateTest, PrefillLoadIsComparedStrictly) {
  const GateConfig gate = Conditional(Policy::kPrefillLoad);
  const GateInput prompt = Prompt(100'000, {});
  const auto load = [&](uint64_t active, uint64_t capacity) {
    return WithPrefill(prompt,
                       {.active_prefill_tokens = active, .max_num_batched_tokens = capacity});
  };
  ExpectRows({
      {"one below", gate, load(16'383, 8192), true, GateRule::kDefault},
      {"at", gate, load(16'384, 8192), true, GateRule::kDefault},
      {"one above", gate, load(16'385, 8192), false, GateRule::kPrefillBusy},
      {"unknown capacity, at", gate, load(20'000'000, 0), true, GateRule::kDefault},
      {"unknown capacity, above", gate, load(20'000'001, 0), false, GateRule::kPrefillBusy},
      {"queue rejected", gate, WithPrefill(prompt, {.queue_rejected = true}), false,
       GateRule::kPrefillBusy},
      {"unknown", gate, prompt, true, GateRule::kDefault, true},
      {"few new tokens do not matter", gate, Prompt(100, {.cached_tokens = 100}), true,
       GateRule::kDefault, true},
  });
}

TEST(DisaggGateTest, EitherReasonIsEnoughForIslOrLoad) {
  const GateConfig gate = Conditional(Policy::kIslOrLoad);
  const PrefillAdvice busy{.active_prefill_tokens = 100, .max_num_batched_tokens = 10};
  const PrefillAdvice idle{.active_prefill_tokens = 0, .max_num_batched_tokens = 10};
  ExpectRows({
      {"short", gate, WithPrefill(Prompt(100, {.cached_tokens = 90}), idle), false,
       GateRule::kFewNewTokens},
      {"busy", gate, WithPrefill(Prompt(100'000, {}), busy), false, GateRule::kPrefillBusy},
      {"both", gate, WithPrefill(Prompt(100, {.cached_tokens = 90}), busy), false,
       GateRule::kFewNewTokens},
      {"neither", gate, WithPrefill(Prompt(100'000, {}), idle), true, GateRule::kDefault},
  });
}

TEST(DisaggGateTest, TheDecodeGuardLetsOnlyKnownRoomPass) {
  const GateConfig gate = Guarded(Policy::kIslBounding, 0.5);
  const auto decode = [](double blocks, uint64_t total) {
    return Prompt(
        100, {.cached_tokens = 100, .potential_decode_blocks = blocks, .total_kv_blocks = total});
  };
  ExpectRows({
      {"one below", gate, decode(99, 200), false, GateRule::kFewNewTokens},
      {"at", gate, decode(100, 200), false, GateRule::kFewNewTokens},
      {"one above", gate, decode(101, 200), true, GateRule::kDecodeBusy},
      {"capacity unknown", gate, decode(0, 0), true, GateRule::kDecodeBusy, true},
      {"not asked when nothing speaks for local", gate, Prompt(100'000, {}), true,
       GateRule::kDefault},
      {"guards the load policies, too", Guarded(Policy::kPrefillLoad, 0.5),
       WithPrefill(decode(101, 200), {.queue_rejected = true}), true, GateRule::kDecodeBusy},
  });
}

TEST(DisaggGateTest, TheLengthGateComesBeforeTheConditionalOne) {
  GateConfig gate = Conditional(Policy::kIslBounding);
  gate.length.min_remote_prefill_tokens = 1000;
  GateInput pinned = Prompt(999, {});
  pinned.prefill_pinned = true;
  ExpectRows({
      {"short", gate, Prompt(999, {}), false, GateRule::kShortPrompt},
      {"short and pinned, as the fork", gate, pinned, false, GateRule::kShortPrompt},
      {"long with few new tokens", gate, Prompt(1000, {.cached_tokens = 900}), false,
       GateRule::kFewNewTokens},
      {"long", gate, Prompt(10'000, {}), true, GateRule::kDefault},
  });
}

TEST(DisaggGateTest, TheExplanationShowsValuesAndThresholds) {
  GateInput input = Prompt(100, {.cached_tokens = 25});
  const GateDecision decision = DecideGate(Conditional(Policy::kIslBounding), input);
  ASSERT_EQ(decision.checks.size(), 2u);
  EXPECT_EQ(decision.checks[0].value, 75);
  EXPECT_EQ(decision.checks[0].threshold, 2048);
  EXPECT_TRUE(decision.checks[0].holds);
  EXPECT_EQ(decision.checks[1].value, 0.75);
  EXPECT_EQ(decision.checks[1].threshold, 0.7);
  EXPECT_FALSE(decision.checks[1].holds);
  EXPECT_EQ(DescribeGate(decision),
            "remote default (new_tokens 75 < 2048: yes, new_ratio 0.75 < 0.7: no)");
  EXPECT_EQ(DescribeGate(DecideGate(Conditional(Policy::kPrefillLoad), input)),
            "remote default (prefill_active_tokens > 2: unknown)");
  EXPECT_EQ(DescribeGate(DecideGate(LengthOf(0), input)), "remote default");
}

TEST(DisaggGateTest, EveryRuleHasItsOwnName) {
  for (int a = 0; a < kGateRuleCount; ++a) {
    for (int b = 0; b < a; ++b) {
      EXPECT_NE(GateRuleName(static_cast<GateRule>(a)), GateRuleName(static_cast<GateRule>(b)));
    }
  }
}

TEST(DisaggGateTest, AdvisoryPicksAreMadeOnlyWhereTheyMatter) {
  EXPECT_FALSE(WantsDecodeAdvice(LengthOf(1000)));
  EXPECT_FALSE(WantsDecodeAdvice(LengthOf(0, Measure::kUncached)));
  EXPECT_TRUE(WantsDecodeAdvice(LengthOf(1000, Measure::kUncached)));
  EXPECT_TRUE(WantsDecodeAdvice(Conditional(Policy::kIslBounding)));
  EXPECT_FALSE(WantsPrefillAdvice(Conditional(Policy::kIslBounding)));
  EXPECT_TRUE(WantsPrefillAdvice(Conditional(Policy::kPrefillLoad)));
  EXPECT_TRUE(WantsPrefillAdvice(Conditional(Policy::kIslOrLoad)));
}

TEST(DisaggGateTest, BadSettingsAreNamed) {
  const auto message = [](const GateConfig& config) {
    const absl::Status status = Validate(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest);
    return std::string(status.message().data(), status.message().size());
  };
  GateConfig ratio = Conditional(Policy::kIslBounding);
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    ratio.conditional.eff_isl_ratio_threshold = bad;
    EXPECT_NE(message(ratio).find("eff_isl_ratio_threshold must be in 0..1"), std::string::npos);
  }
  GateConfig load = Conditional(Policy::kPrefillLoad);
  load.conditional.prefill_busy_threshold.reset();
  EXPECT_NE(message(load).find("router_queue_threshold"), std::string::npos);
  load.conditional.prefill_busy_threshold = -1;
  EXPECT_NE(message(load).find("prefill_busy_threshold must be finite and >= 0, got -1"),
            std::string::npos);
  GateConfig guard = Guarded(Policy::kIslBounding, std::numeric_limits<double>::infinity());
  EXPECT_NE(message(guard).find("decode_busy_threshold"), std::string::npos);
  GateConfig window = Continuations();
  window.length.continuation_window = seconds(0);
  EXPECT_NE(message(window).find("continuation_window must be > 0 s, got 0 s"), std::string::npos);
}

// The gate behind what names sessions and remembers them: as a request meets it.
class GateOfSessionsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kN = 64;

  GateRule Turn(std::string_view caller_id, const std::vector<TokenId>& tokens, MonotonicTime now) {
    std::vector<LocalBlockHash> local;
    std::vector<SequenceHash> chain;
    AppendLocalBlockHashes(tokens, 16, BlockSeed({}), &local);
    AppendSequenceHashes(local, &chain);
    const PromptBeginning prompt{.chain = chain,
                                 .token_ids = tokens,
                                 .isl_tokens = tokens.size(),
                                 .naming = {.block_size_tokens = 16},
                                 .block_seed = BlockSeed({})};
    const auto identity = sessions_.Identify(caller_id, prompt, 1, now);
    GateInput input{.isl_tokens = tokens.size()};
    if (identity.key != kNoSession) input.session_idle = seen_.Touch(identity.key, now);
    GateConfig config = LengthOf(1);
    config.length.local_continuations = true;
    return DecideGate(config, input).rule;
  }

  static std::vector<TokenId> Tokens(TokenId first, size_t count) {
    std::vector<TokenId> tokens(count);
    for (size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
    return tokens;
  }

  SessionIdentifier sessions_{{.prefix_tokens = kN}};
  RecentContinuations seen_{{.max_sessions = 1000}};
};

TEST_F(GateOfSessionsTest, ASessionGoesOnAcrossTheNTokenBoundary) {
  EXPECT_EQ(Turn("", Tokens(0, kN - 1), seconds(0)), GateRule::kDefault);
  EXPECT_EQ(Turn("", Tokens(0, kN), seconds(1)), GateRule::kContinuation);
  EXPECT_EQ(Turn("", Tokens(0, kN + 1), seconds(2)), GateRule::kContinuation);
  EXPECT_EQ(Turn("", Tokens(5000, kN), seconds(3)), GateRule::kDefault) << "another conversation";
}

TEST_F(GateOfSessionsTest, EachTurnRefreshesAndAnHourForgets) {
  EXPECT_EQ(Turn("", Tokens(0, 100), seconds(0)), GateRule::kDefault);
  EXPECT_EQ(Turn("", Tokens(0, 110), seconds(3599)), GateRule::kContinuation);
  EXPECT_EQ(Turn("", Tokens(0, 120), seconds(3599 + 3599)), GateRule::kContinuation);
  EXPECT_EQ(Turn("", Tokens(0, 130), seconds(3599 + 3599 + 3600)), GateRule::kDefault);
}

TEST_F(GateOfSessionsTest, TheCallersIdWins) {
  EXPECT_EQ(Turn("a", Tokens(0, 100), seconds(0)), GateRule::kDefault);
  EXPECT_EQ(Turn("b", Tokens(0, 100), seconds(1)), GateRule::kDefault) << "same prompt, other id";
  EXPECT_EQ(Turn("a", Tokens(9000, 100), seconds(2)), GateRule::kContinuation)
      << "other prompt, same id";
  EXPECT_EQ(Turn("", Tokens(0, 100), seconds(3)), GateRule::kDefault)
      << "ids leave no derived sessions behind";
}

}  // namespace
}  // namespace kvrouter
