#include "daemon/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string_view>

#include "daemon/event_plane.h"
#include "daemon/option_table.h"
#include "daemon/option_text.h"
#include "daemon/unimplemented_settings.h"

namespace kvrouter {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

// A config file that goes with the test.
class ConfigOnDisk {
 public:
  explicit ConfigOnDisk(const std::string& text) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fmt::format("{}/kvrouter_{}_{}.yaml", testing::TempDir(), info->test_suite_name(),
                        info->name());
    std::ofstream(path_) << text;
  }
  ~ConfigOnDisk() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ErrorOf(const Arguments& arguments, const Environment& environment = {}) {
  const auto loaded = LoadOptions(arguments, environment);
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

EffectiveSetting SettingOf(const LoadedOptions& options, const std::string& key) {
  for (const EffectiveSetting& setting : options.settings) {
    if (setting.key == key) return setting;
  }
  ADD_FAILURE() << "no setting " << key;
  return {};
}

// Dynamo's runtime reads where NATS is, and how to log in there, from variables of NATS' name.
bool IsDynamos(std::string_view variable) {
  return variable.starts_with("DYN_") || variable.starts_with("NATS_");
}

TEST(OptionTableTest, EveryRowIsUniqueAndItsDefaultIsAllowed) {
  std::set<std::string> names;
  std::set<std::string> variables;
  for (const Option& option : OptionTable()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_TRUE(variables.insert(option.environment).second) << option.environment;
    EXPECT_TRUE(IsDynamos(option.environment) || option.environment.starts_with("KVROUTER_"))
        << option.environment;
    EXPECT_FALSE(option.help.empty()) << option.name;
    DaemonConfig config;
    EXPECT_TRUE(option.set(option.Default(), &config).ok())
        << option.name << " refuses its default " << option.Default();
    EXPECT_EQ(option.get(config), option.Default()) << option.name;
  }
}

TEST(OptionTableTest, OurVariablesFollowTheFlag) {
  for (const Option& option : OptionTable()) {
    if (IsDynamos(option.environment)) continue;
    std::string want = "KVROUTER_" + option.Key();
    for (char& c : want) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(option.environment, want);
  }
}

TEST(OptionTableTest, EveryRowIsInHelpAndInTheDocsTable) {
  for (const Option& option : OptionTable()) {
    EXPECT_THAT(OptionsHelp(), HasSubstr(option.name));
    EXPECT_THAT(OptionsMarkdown(), HasSubstr(fmt::format("`{}`", option.environment)));
  }
}

TEST(OptionsTest, SecretsAreNotInTheEffectiveConfig) {
  const auto loaded =
      LoadOptions({}, {{"NATS_AUTH_USERNAME", "u"}, {"NATS_AUTH_PASSWORD", "hush-hush"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.event_plane.nats.password, "hush-hush");
  EXPECT_THAT(EffectiveConfigText(*loaded), Not(HasSubstr("hush-hush")));
  EXPECT_THAT(EffectiveConfigText(*loaded), HasSubstr("nats_auth_password: \"***\""));
  EXPECT_THAT(EffectiveConfigText(*loaded), HasSubstr("nats_auth_token: \"\""));
}

TEST(OptionsTest, ListsAreSeparatedByCommas) {
  const auto loaded = LoadOptions({"--nats-server", " nats://a:1, ,nats://b:2"}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->config.event_plane.nats.servers, ElementsAre("nats://a:1", "nats://b:2"));
}

TEST(EventPlaneTest, BrokerUrlNamesWhereSubscribersConnect) {
  const auto endpoints = [](const char* url) {
    return BrokerEndpoints(url).value_or(std::vector<std::string>{"refused"});
  };
  EXPECT_THAT(endpoints(""), ElementsAre());
  EXPECT_THAT(endpoints("xsub=tcp://a:5555 , xpub=tcp://a:5556"), ElementsAre("tcp://a:5556"));
  EXPECT_THAT(endpoints("xpub=tcp://a:6;tcp://b:6,xsub=tcp://a:5;tcp://b:5"),
              ElementsAre("tcp://a:6", "tcp://b:6"));
  for (const char* bad : {"tcp://a:1", "xsub=tcp://a:1", "xpub=", "xpub=tcp://a:1,tcp://b:1"})
    EXPECT_THAT(endpoints(bad), ElementsAre("refused")) << bad;
}

TEST(EventPlaneTest, SubjectsFollowTheScope) {
  EXPECT_THAT(PlaneSubjects({"dynamo", "", ""}),
              ElementsAre("namespace.dynamo.component.*.endpoint.*.kv-events",
                          "namespace.dynamo.component.*.kv-events",
                          "namespace.dynamo.component.*.endpoint.*.kv_metrics",
                          "namespace.dynamo.component.*.kv_metrics"));
  EXPECT_THAT(PlaneSubjects({"dynamo", "backend", "generate"}),
              ElementsAre("namespace.dynamo.component.backend.endpoint.generate.kv-events",
                          "namespace.dynamo.component.backend.endpoint.generate.kv_metrics"));
}

TEST(OptionsTest, DefaultsAreTheProductsOwn) {
  const auto loaded = LoadOptions({}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.http.listen, "127.0.0.1:8092");
  EXPECT_EQ(loaded->config.grpc.listen, "127.0.0.1:8093");
  EXPECT_EQ(loaded->config.router.scheduler.weights.overlap_score_credit, 1.0);
  EXPECT_EQ(loaded->config.router.scheduler.active_request_expiry.count(), 300);
  for (const EffectiveSetting& setting : loaded->settings)
    EXPECT_EQ(setting.origin, SettingOrigin::kDefault);
}

TEST(OptionsTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const ConfigOnDisk file(
      "router_temperature: 0.1\nrouter_prefill_load_scale: 2\nrouter_kv_overlap_score_credit: 3\n");
  const auto loaded =
      LoadOptions({"--config", file.path(), "--router-temperature=0.3"},
                  {{"DYN_ROUTER_TEMPERATURE", "0.2"}, {"DYN_ROUTER_PREFILL_LOAD_SCALE", "4"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.router.scheduler.router_temperature, 0.3);
  EXPECT_EQ(SettingOf(*loaded, "router_temperature").source, "flag --router-temperature");
  EXPECT_EQ(loaded->config.router.scheduler.weights.prefill_load_scale, 4);
  EXPECT_EQ(SettingOf(*loaded, "router_prefill_load_scale").source,
            "environment DYN_ROUTER_PREFILL_LOAD_SCALE");
  EXPECT_EQ(loaded->config.router.scheduler.weights.overlap_score_credit, 3);
  EXPECT_EQ(SettingOf(*loaded, "router_kv_overlap_score_credit").source,
            fmt::format("file {}:3", file.path()));
  EXPECT_EQ(SettingOf(*loaded, "http_listen").source, "default");
}

TEST(OptionsTest, ConfigPathComesFromEnvironmentToo) {
  const ConfigOnDisk file("log_level: debug\n");
  const auto loaded = LoadOptions({}, {{"KVROUTER_CONFIG", file.path()}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.log_level, "debug");
}

TEST(OptionsTest, SwitchesHaveNoFormAndWordForms) {
  const auto off =
      LoadOptions({"--no-router-track-active-blocks", "--no-router-assume-kv-reuse"}, {});
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_FALSE(off->config.router.scheduler.track_active_blocks);
  EXPECT_FALSE(off->config.router.scheduler.assume_kv_reuse);
  const auto on =
      LoadOptions({"--router-track-output-blocks"}, {{"DYN_ROUTER_TRACK_PREFILL_TOKENS", "FALSE"}});
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_TRUE(on->config.router.scheduler.track_output_blocks);
  EXPECT_FALSE(on->config.router.scheduler.track_prefill_tokens);
  EXPECT_FALSE(
      LoadOptions({"--router-assume-kv-reuse=false"}, {})->config.router.scheduler.assume_kv_reuse);
}

// Parity: overlap_score_weight sets the prefill load scale, and 0 also takes away the credit.
TEST(OptionsTest, DeprecatedOverlapScoreWeightMapsToTheScale) {
  const auto two = LoadOptions({"--kv-overlap-score-weight", "2"}, {});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->config.router.scheduler.weights.prefill_load_scale, 2);
  EXPECT_EQ(two->config.router.scheduler.weights.overlap_score_credit, 1);
  const auto zero = LoadOptions({}, {{"DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT", "0"}});
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(zero->config.router.scheduler.weights.prefill_load_scale, 0);
  EXPECT_EQ(zero->config.router.scheduler.weights.overlap_score_credit, 0);
  EXPECT_EQ(SettingOf(*zero, "router_kv_overlap_score_credit").source,
            "environment DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT");
}

TEST(OptionsTest, AReplacedDeprecatedWeightOfZeroTakesNoCreditAway) {
  const auto weights = [](const Arguments& arguments, const Environment& environment) {
    const auto loaded = LoadOptions(arguments, environment);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->config.router.scheduler.weights : CostWeights();
  };
  const Environment zero = {{"DYN_OVERLAP_SCORE_WEIGHT", "0"}};
  const Environment both = {{"DYN_OVERLAP_SCORE_WEIGHT", "0"},
                            {"DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT", "2"}};
  const ConfigOnDisk file("router_kv_overlap_score_weight: 0\n");
  for (const CostWeights& two :
       {weights({"--kv-overlap-score-weight=2"}, zero), weights({}, both),
        weights({"--kv-overlap-score-weight=0", "--router-kv-overlap-score-weight=2"}, {}),
        weights({"--config", file.path(), "--kv-overlap-score-weight=2"}, {})}) {
    EXPECT_EQ(two.prefill_load_scale, 2);
    EXPECT_EQ(two.overlap_score_credit, 1);
  }
  EXPECT_EQ(weights({"--kv-overlap-score-weight=0"}, both).overlap_score_credit, 0);
  EXPECT_THAT(ErrorOf({"--kv-overlap-score-weight=2"}, {{"DYN_OVERLAP_SCORE_WEIGHT", "x"}}),
              HasSubstr("DYN_OVERLAP_SCORE_WEIGHT"))
      << "a bad value is bad, also where another one counts";
}

TEST(OptionsTest, LongerDeprecatedVariableIsStrongerAndTheRealNameStrongest) {
  const Environment both = {{"DYN_OVERLAP_SCORE_WEIGHT", "2"},
                            {"DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT", "3"}};
  EXPECT_EQ(LoadOptions({}, both)->config.router.scheduler.weights.prefill_load_scale, 3);
  Environment all = both;
  all["DYN_ROUTER_PREFILL_LOAD_SCALE"] = "4";
  EXPECT_EQ(LoadOptions({}, all)->config.router.scheduler.weights.prefill_load_scale, 4);
}

TEST(OptionsTest, BadValueNamesSettingValueOriginAndRange) {
  EXPECT_EQ(ErrorOf({}, {{"DYN_ROUTER_TEMPERATURE", "warm"}}),
            "router_temperature: bad value 'warm' from environment DYN_ROUTER_TEMPERATURE: want a "
            "finite number >= 0");
  EXPECT_EQ(ErrorOf({"--router-host-cache-hit-weight=1.5"}),
            "router_host_cache_hit_weight: bad value '1.5' from flag "
            "--router-host-cache-hit-weight: want a number in 0..1");
  const ConfigOnDisk file("\nrouter_event_threads: 0\n");
  EXPECT_EQ(ErrorOf({"--config=" + file.path()}),
            fmt::format(
                "router_event_threads: bad value '0' from file {}:2: want a whole number in 1..64",
                file.path()));
}

TEST(OptionsTest, EveryNumberRefusesWhatIsNoneAndEverySwitchWhatIsNeither) {
  for (const Option& option : OptionTable()) {
    const bool number = option.range.find("number") != std::string::npos;
    if (!number && !option.is_switch) continue;
    for (const char* bad :
         {"", "x", "-1", "nan", "inf", "1e999", "0x10", "1 ", " 1", "99999999999999999999999"}) {
      if (!option.is_switch && option.range.find("a finite number >= 0") != std::string::npos &&
          std::string(bad).starts_with("9999"))
        continue;
      DaemonConfig config;
      EXPECT_FALSE(option.set(bad, &config).ok()) << option.name << "='" << bad << "'";
    }
  }
}

TEST(OptionsTest, BadValueIsRefusedEvenWhenAStrongerOneHidesIt) {
  EXPECT_THAT(ErrorOf({"--router-temperature=1"}, {{"DYN_ROUTER_TEMPERATURE", "x"}}),
              HasSubstr("bad value 'x'"));
}

TEST(OptionsTest, UnknownNamesAreRefusedWithTheNearestOne) {
  EXPECT_EQ(ErrorOf({"--router-temprature", "1"}),
            "unknown flag '--router-temprature' (did you mean '--router-temperature'?)");
  EXPECT_EQ(ErrorOf({"--zzz"}), "unknown flag '--zzz'");
  EXPECT_EQ(ErrorOf({"run"}), "unexpected argument 'run': options begin with --");
  EXPECT_EQ(ErrorOf({"--http-listen"}), "--http-listen needs a value");
  EXPECT_EQ(ErrorOf({"--no-http-listen"}),
            "unknown flag '--no-http-listen' (did you mean '--http-listen'?)");
  const ConfigOnDisk file("http_lisen: 127.0.0.1:0\n");
  EXPECT_EQ(
      ErrorOf({"--config", file.path()}),
      fmt::format("{}:1: unknown key 'http_lisen' (did you mean 'http_listen'?)", file.path()));
}

TEST(OptionsTest, SettingsThatContradictEachOtherAreRefused) {
  EXPECT_THAT(ErrorOf({"--router-track-output-blocks", "--no-router-track-active-blocks"}),
              HasSubstr("track_output_blocks"));
  EXPECT_THAT(ErrorOf({"--zmq-reconnect-min-ms=2000", "--zmq-reconnect-max-ms=1000"}),
              HasSubstr("zmq_reconnect_min_ms"));
}

TEST(OptionsTest, StoresOfAFeedAreCountedUnlessSetIsAskedFor) {
  const auto counting = [](const Arguments& arguments, const Environment& environment) {
    return LoadOptions(arguments, environment)->config.zmq.store_counting;
  };
  EXPECT_EQ(counting({}, {}), StoreCounting::kCounted);
  EXPECT_EQ(counting({"--feed-store-counting=set"}, {}), StoreCounting::kSet);
  EXPECT_EQ(counting({}, {{"KVROUTER_FEED_STORE_COUNTING", "set"}}), StoreCounting::kSet);
  EXPECT_THAT(ErrorOf({"--feed-store-counting=once"}), HasSubstr("counted or set"));
}

TEST(OptionsTest, UnknownDynVariablesAreListedAndIgnored) {
  const auto loaded = LoadOptions({}, {{"DYN_ROUTER_MODE", "kv"},
                                       {"DYN_ROUTER_TEMPERATURE", "0"},
                                       {"KVROUTER_TEMPRATURE", "1"},
                                       {"KVROUTER_PORT_8092_TCP_ADDR", "10.0.0.1"},
                                       {"KVROUTER_SERVICE_HOST", "10.0.0.1"},
                                       {"PATH", "/bin"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->ignored_variables, ElementsAre("DYN_ROUTER_MODE", "KVROUTER_TEMPRATURE"));
}

TEST(OptionsTest, SettingsOfPartsThatAreNotThereAreRefusedUnlessNeutral) {
  EXPECT_EQ(ErrorOf({}, {{"DYN_ROUTER_REPLICA_SYNC", "4"}}),
            "value '4' from environment DYN_ROUTER_REPLICA_SYNC: not supported: routers do not "
            "tell each other of their bookings; send all requests of a model to one");
  EXPECT_THAT(ErrorOf({"--router-replica-sync=4"}),
              HasSubstr("flag '--router-replica-sync=4': not supported: "));
  const ConfigOnDisk file("router_replica_sync: true\n");
  EXPECT_EQ(ErrorOf({"--config", file.path()}),
            fmt::format("{}:1: key 'router_replica_sync': not supported: routers do not tell each "
                        "other of their bookings; send all requests of a model to one",
                        file.path()));
  for (const UnimplementedSetting& setting : UnimplementedSettings()) {
    const std::string variable(setting.variable);
    EXPECT_THAT(ErrorOf({}, {{variable, "77"}}), HasSubstr(variable));
    EXPECT_EQ(ErrorOf({}, {{variable, ""}}), "") << variable;
    for (const std::string_view neutral : setting.neutral)
      EXPECT_EQ(ErrorOf({}, {{variable, std::string(neutral)}}), "") << variable;
    for (const Option& option : OptionTable())
      EXPECT_NE(option.environment, variable) << "implemented: its row has to go";
  }
  EXPECT_THAT(ErrorOf({}, {{"DYN_ROUTER_PREFILL_LOAD_MODEL", "aic"}}),
              HasSubstr("DYN_ROUTER_PREFILL_LOAD_MODEL: not supported: "));
  EXPECT_THAT(ErrorOf({"--router-mode=random"}), HasSubstr("not supported: "));
  EXPECT_EQ(ErrorOf({}, {{"DYN_ROUTER_QUEUE_POLICY", "FCFS"}}), "");
}

TEST(OptionsTest, FlagsAndKeysOfPartsThatAreNotTherePassIfTheyAskForNothing) {
  for (const Arguments& arguments :
       {Arguments{"--router-mode", "kv"}, Arguments{"--router-mode=kv", "--no-router-replica-sync"},
        Arguments{"--router-replica-sync=false", "--no-use-remote-indexer", "--no-serve-indexer"},
        Arguments{"--router-prefill-load-model", "none", "--router-temperature", "1"},
        Arguments{"--router-tracking-hash=public-xxh3-v1"}, Arguments{"--enforce-disagg"},
        Arguments{"--no-enforce-disagg"}})
    EXPECT_EQ(ErrorOf(arguments), "") << arguments.front();
  for (const Arguments& arguments :
       {Arguments{"--router-mode", "random"}, Arguments{"--router-mode"},
        Arguments{"--router-replica-sync"}, Arguments{"--router-replica-sync=true"},
        Arguments{"--no-router-replica-sync=true"}, Arguments{"--use-remote-indexer"},
        Arguments{"--router-prefill-policy", "x"}})
    EXPECT_THAT(ErrorOf(arguments), HasSubstr("not supported: ")) << arguments.front();
  EXPECT_THAT(ErrorOf({"--no-router-mode"}), HasSubstr("unknown flag"));
  EXPECT_THAT(ErrorOf({"--enforce-disagg=x"}), HasSubstr("unknown flag"));
  const auto dead = LoadOptions({"--enforce-disagg", "--router-mode=kv"}, {});
  EXPECT_THAT(dead->ignored_flags, ElementsAre("--enforce-disagg"));
  const ConfigOnDisk file("router_mode: kv\nrouter_replica_sync: false\n");
  EXPECT_EQ(ErrorOf({"--config", file.path()}), "");
}

TEST(OptionsTest, AdmissionSettingsHaveDynamosNamesAndRanges) {
  const auto loaded = LoadOptions({"--router-overlap-refresh-after-secs=-1"},
                                  {{"DYN_ROUTER_QUEUE_THRESHOLD", "1.5"},
                                   {"DYN_ROUTER_QUEUE_POLICY", "wspt"},
                                   {"DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD", "0.9"},
                                   {"DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD", "20000"},
                                   {"DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC", "none"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const SchedulerConfig& scheduler = loaded->config.router.scheduler;
  EXPECT_EQ(scheduler.queue.busy.batch_share, 1.5);
  EXPECT_EQ(scheduler.queue.order, QueueOrder::kWspt);
  EXPECT_EQ(scheduler.queue.overlap_refresh_after.count(), 0);
  EXPECT_EQ(scheduler.overload,
            (OverloadThresholds{.active_decode_blocks = 0.9, .active_prefill_tokens = 20000}));
  for (const char* const bad :
       {"--router-queue-threshold=-1", "--router-queue-threshold=nan", "--router-queue-policy=lcfs",
        "--active-decode-blocks-threshold=1.1", "--active-prefill-tokens-threshold=1.5",
        "--router-overlap-refresh-after-secs=inf", "--outlier-max-secs=0",
        "--outlier-max-ejected-share=2"}) {
    EXPECT_NE(ErrorOf({bad}), "") << bad;
  }
  EXPECT_THAT(ErrorOf({"--outlier-base-secs=20", "--outlier-max-secs=10"}),
              HasSubstr("max_time must be >= base_time"));
}

TEST(OptionsTest, PolicyFilesGiveProfilesByModel) {
  const ConfigOnDisk file(R"(default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 4096, bucket: long}]
policy_classes:
  - {name: a, policy_family: f, cache_bucket: short, queue_policy: wspt, quantum: 4096,
     prefill_busy_threshold: 10}
  - {name: b, policy_family: f, cache_bucket: long, prefill_busy_threshold_frac: 2.5,
     request_queue_limit_per_worker: 3, raw_isl_token_queue_limit_per_worker: 4,
     cached_token_queue_limit_per_worker: 5}
models:
  m:
    default_policy_family: g
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: c, policy_family: g, cache_bucket: any}]
)");
  const auto loaded = LoadOptions({"--router-policy-config", file.path()}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const QueueConfig& queue = loaded->config.router.scheduler.queue;
  ASSERT_TRUE(queue.profile.has_value());
  EXPECT_EQ(queue.profile->uncached_isl_buckets[1],
            (UncachedBucket{.min_tokens = 4096, .bucket = "long"}));
  EXPECT_EQ(queue.profile->policy_classes[0], (PolicyClass{.name = "a",
                                                           .policy_family = "f",
                                                           .cache_bucket = "short",
                                                           .order = QueueOrder::kWspt,
                                                           .quantum_tokens = 4096,
                                                           .busy = {.tokens = 10}}));
  EXPECT_EQ(queue.profile->policy_classes[1], (PolicyClass{.name = "b",
                                                           .policy_family = "f",
                                                           .cache_bucket = "long",
                                                           .busy = {.batch_share = 2.5},
                                                           .request_limit_per_worker = 3,
                                                           .raw_isl_token_limit_per_worker = 4,
                                                           .cached_token_limit_per_worker = 5}));
  EXPECT_EQ(queue.model_profiles.at("m").policy_classes[0].name, "c");
}

TEST(OptionsTest, PolicyFilesThatSayNothingUsefulAreRefusedWithTheirPlace) {
  const auto error_of = [](const std::string& text) {
    const ConfigOnDisk file(text);
    return ErrorOf({"--router-policy-config", file.path()});
  };
  EXPECT_THAT(error_of("quantum: 1\n"), HasSubstr(":1: unknown key 'quantum'"));
  EXPECT_THAT(error_of("policy_classes:\n  - {name: a, weight: 1}\n"),
              HasSubstr(":2: unknown key 'weight'"));
  EXPECT_THAT(error_of("policy_classes: [{name: a, quantum: x}]\n"), HasSubstr("bad value 'x'"));
  EXPECT_THAT(error_of("policy_classes: [{name: a, queue_policy: lcfs}]\n"),
              HasSubstr("queue_policy must be fcfs or wspt"));
  EXPECT_THAT(error_of("policy_classes: 7\n"), HasSubstr("want a list"));
  EXPECT_THAT(error_of("default_policy_family: f\npolicy_classes: [{name: a}]\n"),
              HasSubstr("is the family of no policy class"));
  EXPECT_THAT(error_of("[]\n"), HasSubstr("want a map"));
  EXPECT_THAT(error_of("a: {\n"), HasSubstr("router_policy_config"));
  EXPECT_THAT(ErrorOf({"--router-policy-config", "/nowhere.yaml"}), HasSubstr("/nowhere.yaml"));
  EXPECT_THAT(ErrorOf({"--router-policy-config", "/dev/zero"}), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of("policy_classes: []\npolicy_classes: []\n"), HasSubstr(":2: "));
  EXPECT_THAT(error_of("policy_classes: [{name: a, name: b}]\n"), HasSubstr("name is given twice"));
  EXPECT_THAT(error_of("models: {m: {}, m: {}}\n"), HasSubstr("models: m is given twice"));
  // Also what is wrong with the classes together is this file's affair, and nothing else is.
  EXPECT_THAT(error_of("policy_classes: []\n"),
              AllOf(HasSubstr("router_policy_config"), HasSubstr("must not be empty")));
  const ConfigOnDisk empty("policy_classes: []\n");
  EXPECT_THAT(ErrorOf({"--router-policy-config", empty.path(), "--outlier-max-secs=1"}),
              AllOf(HasSubstr("outlier"), Not(HasSubstr("router_policy_config"))));
}

TEST(OptionsTest, OverlapSourcesAreSetUnderAllTheirNames) {
  const auto source_of = [](const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment) {
    const auto loaded = LoadOptions(arguments, environment);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->config.router.overlap_source : OverlapSourceConfig{};
  };
  EXPECT_TRUE(source_of({}, {}).use_kv_events);
  EXPECT_FALSE(source_of({}, {{"DYN_USE_KV_EVENTS", "false"}}).use_kv_events);
  EXPECT_FALSE(
      source_of({}, {{"DYN_ROUTER_USE_KV_EVENTS", "0"}, {"DYN_USE_KV_EVENTS", "1"}}).use_kv_events)
      << "the newer spelling is stronger";
  EXPECT_FALSE(source_of({"--no-router-kv-events"}, {}).use_kv_events);
  EXPECT_FALSE(source_of({"--no-kv-events"}, {}).use_kv_events);
  const OverlapSourceConfig timed = source_of({"--router-ttl-secs=2.5"}, {});
  EXPECT_EQ(timed.router_ttl, std::chrono::milliseconds(2500));
  EXPECT_FALSE(timed.predicted_ttl.has_value());
  EXPECT_EQ(source_of({}, {{"DYN_ROUTER_PREDICTED_TTL_SECS", "0.5"}}).predicted_ttl,
            std::chrono::milliseconds(500));
  EXPECT_EQ(source_of({"--shared-cache-type=external"}, {}).shared_cache_type,
            SharedCacheType::kExternalTier);
  EXPECT_THAT(ErrorOf({"--shared-cache-type=hicache"}), HasSubstr("not supported: "));
  EXPECT_THAT(ErrorOf({"--router-ttl-secs=-1"}), HasSubstr("a number in 0..31536000"));
  EXPECT_THAT(ErrorOf({"--router-predicted-ttl-secs=1", "--no-router-kv-events"}),
              HasSubstr("router_predicted_ttl_secs must be none unless router_kv_events is true"));
  EXPECT_THAT(ErrorOf({"--shared-cache-type=external", "--no-router-kv-events"}),
              HasSubstr("shared_cache_type must be none unless router_kv_events is true"));
}

TEST(OptionsTest, LoadAwareSetsWhatUpstreamsPresetSets) {
  const auto loaded = LoadOptions({"--router-kv-overlap-score-credit=2"},
                                  {{"DYN_ROUTER_LOAD_AWARE", "true"},
                                   {"DYN_ROUTER_PREDICTED_TTL_SECS", "3"},
                                   {"DYN_ROUTER_TRACK_ACTIVE_BLOCKS", "false"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const RouterConfig& router = loaded->config.router;
  EXPECT_EQ(OverlapSourceOf(router), OverlapSource::kNone);
  EXPECT_EQ(router.scheduler.weights.overlap_score_credit, 0);
  EXPECT_FALSE(router.overlap_source.use_kv_events);
  EXPECT_FALSE(router.overlap_source.predicted_ttl.has_value());
  EXPECT_TRUE(router.scheduler.track_active_blocks);
  EXPECT_TRUE(router.scheduler.track_prefill_tokens);
  EXPECT_FALSE(router.scheduler.assume_kv_reuse);
  EXPECT_THAT(EffectiveConfigText(*loaded),
              HasSubstr("# environment DYN_ROUTER_LOAD_AWARE (load-aware)"));
}

TEST(OptionsTest, WithoutEventsNothingIsSavedOrTakenOver) {
  const auto loaded =
      LoadOptions({"--no-router-kv-events", "--snapshot-path=/tmp/x", "--indexer-peers=h:1"}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->without_effect, ElementsAre("snapshot_path", "indexer_peers"));
  EXPECT_EQ(loaded->config.snapshot.path, "");
  EXPECT_TRUE(loaded->config.peers.peers.empty());
}

TEST(OptionsTest, SettingsThatOthersMakeIdleAreNamed) {
  EXPECT_THAT(LoadOptions({}, {})->without_effect, ElementsAre());
  EXPECT_THAT(LoadOptions({"--router-host-cache-hit-weight=0.5", "--shared-cache-multiplier=0.5"},
                          {{"DYN_ROUTER_DISK_CACHE_HIT_WEIGHT", "0"}})
                  ->without_effect,
              ElementsAre("shared_cache_multiplier"));
  EXPECT_THAT(LoadOptions({"--kv-migration-transfer-us-per-block=9"}, {})->without_effect,
              ElementsAre("kv_migration_transfer_us_per_block"));
  EXPECT_THAT(LoadOptions({"--kv-migration-transfer-us-per-block=9",
                           "--kv-migration-prefill-tokens-per-s=8000"},
                          {})
                  ->without_effect,
              ElementsAre());
  EXPECT_THAT(LoadOptions({"--load-aware", "--router-conditional-disagg"}, {})->without_effect,
              ElementsAre("router_conditional_disagg"));
}

TEST(OptionsTest, SessionsAndQueuesThatNothingTurnsOnAreNamed) {
  const Environment fork = {{"DYN_SESSION_FROM_PREFIX_TOKENS", "2048"},
                            {"DYN_SESSION_RENDEZVOUS", "1"},
                            {"DYN_LOCAL_CONTINUATIONS", "1"},
                            {"DYN_ROUTER_QUEUE_POLICY", "wspt"}};
  EXPECT_THAT(LoadOptions({}, fork)->without_effect,
              ElementsAre("router_queue_policy", "local_continuations", "session_rendezvous",
                          "session_from_prefix_tokens"));
  EXPECT_THAT(LoadOptions({"--router-session-affinity-ttl-secs=60", "--router-queue-threshold=2",
                           "--min-remote-prefill-tokens=1000"},
                          fork)
                  ->without_effect,
              ElementsAre());
  // Continuations alone, or the planner, want to know who a session is, too.
  EXPECT_THAT(LoadOptions({"--min-remote-prefill-tokens=1000"}, fork)->without_effect,
              ElementsAre("router_queue_policy", "session_rendezvous"));
  EXPECT_THAT(LoadOptions({"--kv-migration=dry"}, fork)->without_effect,
              ElementsAre("router_queue_policy", "local_continuations", "session_rendezvous"));
}

// The ends of a range that --help promises are accepted by everything that looks at the settings.
TEST(OptionsTest, TheEndsOfEveryRangeAreAccepted) {
  for (const Option& option : OptionTable()) {
    constexpr std::string_view kWhole = "a whole number in ";
    if (!option.range.starts_with(kWhole)) continue;
    const std::string range = option.range.substr(kWhole.size());
    const size_t dots = range.find("..");
    // A wait that grows from its minimum to its maximum: set both.
    const bool reconnect = option.name.starts_with("zmq-reconnect-");
    for (const std::string& end : {range.substr(0, dots), range.substr(dots + 2)}) {
      Arguments arguments{"--check-config", "--" + option.name, end};
      if (reconnect) arguments = {"--zmq-reconnect-min-ms=" + end, "--zmq-reconnect-max-ms=" + end};
      // Likewise how long a rank is out.
      if (option.name == "outlier-base-secs" || option.name == "outlier-max-secs")
        arguments = {"--outlier-base-secs=" + end, "--outlier-max-secs=" + end};
      EXPECT_EQ(ErrorOf(arguments), "") << option.name << "=" << end;
    }
  }
}

TEST(OptionsTest, TheGraceOfTheEndLeavesTimeForTheRestOfIt) {
  EXPECT_EQ(ErrorOf({"--shutdown-grace-ms=3000"}), "");
  EXPECT_THAT(ErrorOf({"--shutdown-grace-ms=3001"}), HasSubstr("0..3000"));
}

TEST(OptionsTest, RequestIdsHaveABoundWhateverTheSetting) {
  EXPECT_THAT(ErrorOf({"--max-request-id-bytes=1025"}), HasSubstr("1..1024"));
}

TEST(OptionsTest, ActionsAreRecognised) {
  EXPECT_EQ(LoadOptions({"--check-config"}, {})->action, DaemonAction::kCheckConfig);
  EXPECT_EQ(LoadOptions({"--print-effective-config"}, {})->action,
            DaemonAction::kPrintEffectiveConfig);
  EXPECT_EQ(LoadOptions({"--version"}, {})->action, DaemonAction::kVersion);
  EXPECT_EQ(LoadOptions({"-h"}, {})->action, DaemonAction::kHelp);
  EXPECT_FALSE(LoadOptions({"--check-config=yes"}, {}).ok());
}

TEST(OptionsTest, EffectiveConfigLoadsBackToTheSameSettings) {
  const ConfigOnDisk first(
      "workers:\n  - {worker_id: 7, address: 'http://h:1', block_size: 16, dp_size: 2, role: "
      "decode,\n"
      "     kv_events_endpoint: 'tcp://h:5557', replay_endpoints: {1: 'tcp://h:7000'}}\n");
  const auto loaded =
      LoadOptions({"--config", first.path(), "--http-listen=[::1]:0", "--router-temperature=0.25"},
                  {{"KVROUTER_ROUTER_ID", "a \"b\" # c"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string text = EffectiveConfigText(*loaded);
  EXPECT_THAT(text, HasSubstr("# environment KVROUTER_ROUTER_ID"));
  std::ofstream(first.path()) << text;
  const auto again = LoadOptions({"--config", first.path()}, {});
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  ASSERT_EQ(again->settings.size(), loaded->settings.size());
  for (size_t i = 0; i < loaded->settings.size(); ++i) {
    EXPECT_EQ(again->settings[i].value, loaded->settings[i].value) << loaded->settings[i].key;
  }
  EXPECT_EQ(again->config.workers, loaded->config.workers);
  EXPECT_EQ(again->config.workers.size(), 1u);
}

TEST(OptionsTest, WorkersThatCannotLiveTogetherAreRefused) {
  const ConfigOnDisk file(
      "workers:\n  - {worker_id: 1, address: a, block_size: 16}\n  - {worker_id: 2, address: b, "
      "block_size: 32}\n");
  EXPECT_THAT(ErrorOf({"--config", file.path()}), HasSubstr("worker 2 of the config file: "));
  const ConfigOnDisk bad("workers:\n  - {worker_id: 1, address: a, block_size: 0}\n");
  EXPECT_THAT(ErrorOf({"--config", bad.path()}), HasSubstr("block_size"));
}

TEST(OptionsTest, MissingConfigFileIsAnError) {
  EXPECT_THAT(ErrorOf({"--config", "/nonexistent/kvrouter.yaml"}),
              HasSubstr("/nonexistent/kvrouter.yaml"));
}

TEST(OptionsTest, TheForksSpellingsOfMigrationAreUnderstood) {
  const auto mode = [](const std::string& text) {
    const auto loaded = LoadOptions({}, {{"DYN_KV_MIGRATION", text}});
    EXPECT_TRUE(loaded.ok()) << text;
    return loaded->config.router.migration.mode;
  };
  for (const char* on : {"1", "true", "TRUE", "migrate"})
    EXPECT_EQ(mode(on), MigrationMode::kMigrate);
  for (const char* dry : {"dry", "DRY"}) EXPECT_EQ(mode(dry), MigrationMode::kDry);
  for (const char* off : {"0", "false", "off"}) EXPECT_EQ(mode(off), MigrationMode::kOff);
  EXPECT_THAT(ErrorOf({}, {{"DYN_KV_MIGRATION", "maybe"}}), HasSubstr("want off, dry or migrate"));
}

TEST(OptionsTest, TheJsonOfConditionalDisaggregationIsStrongerThanItsVariables) {
  const auto loaded = LoadOptions(
      {},
      {{"DYN_ROUTER_CONDITIONAL_DISAGG", "true"},
       {"DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_THRESHOLD", "1"},
       {"DYN_ROUTER_CONDITIONAL_DISAGG_DECODE_BUSY_THRESHOLD", "0.9"},
       {"DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG",
        R"({"policy": "isl_or_load", "eff_isl_threshold": 4096, "prefill_busy_threshold": 0.5})"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ConditionalDisagg& conditional = loaded->config.router.gate.conditional;
  EXPECT_TRUE(conditional.enabled);
  EXPECT_EQ(conditional.policy, ConditionalDisagg::Policy::kIslOrLoad);
  EXPECT_EQ(conditional.eff_isl_threshold_tokens, 4096u);
  EXPECT_EQ(conditional.prefill_busy_threshold, 0.5);
  EXPECT_EQ(conditional.decode_busy_threshold, 0.9) << "the JSON does not speak of it";
  EXPECT_EQ(SettingOf(*loaded, "router_conditional_disagg_eff_isl_threshold").value, "4096");
  const auto config = [](const std::string& json) {
    return ErrorOf({"--router-conditional-disagg-config=" + json});
  };
  EXPECT_THAT(config(R"({"eff_isl": 1})"), HasSubstr("unknown key 'eff_isl'"));
  EXPECT_THAT(config(R"({"eff_isl_threshold": -1})"),
              HasSubstr("eff_isl_threshold: bad value '-1'"));
  EXPECT_THAT(config("[1"), HasSubstr("router_conditional_disagg_config: bad value"));
  EXPECT_EQ(config(R"({"decode_busy_threshold": null})"), "");
  EXPECT_THAT(
      ErrorOf({"--router-conditional-disagg", "--router-conditional-disagg-policy=prefill_load"}),
      HasSubstr("prefill_busy_threshold"));
}

TEST(OptionsTest, SessionSettingsHaveDynamosNamesAndRanges) {
  const auto loaded = LoadOptions({"--session-soft", "--session-soft-max-cost-factor=2"},
                                  {{"DYN_ROUTER_SESSION_AFFINITY_TTL_SECS", "31536000"},
                                   {"DYN_SESSION_FROM_PREFIX_TOKENS", "256"},
                                   {"DYN_SESSION_RENDEZVOUS", "1"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const SessionConfig& sessions = loaded->config.router.sessions;
  EXPECT_EQ(sessions.affinity_ttl, std::chrono::seconds(31'536'000));
  EXPECT_EQ(sessions.prefix_tokens, 256u);
  EXPECT_TRUE(sessions.rendezvous);
  EXPECT_TRUE(sessions.soft);
  EXPECT_EQ(sessions.soft_pin.max_cost_factor, 2);
  EXPECT_THAT(ErrorOf({}, {{"DYN_ROUTER_SESSION_AFFINITY_TTL_SECS", "0"}}), HasSubstr("want"));
  EXPECT_THAT(ErrorOf({}, {{"DYN_ROUTER_SESSION_AFFINITY_TTL_SECS", "31536001"}}),
              HasSubstr("want"));
  EXPECT_THAT(ErrorOf({"--session-soft-max-cost-factor=0.5"}), HasSubstr("max_cost_factor"));
}

}  // namespace
}  // namespace kvrouter
