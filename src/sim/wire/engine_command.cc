#include "sim/wire/engine_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cli_choice.h"
#include "kvrouter/worker.h"
#include "sim/wire/wire_fleet.h"

namespace kvrouter::sim {
namespace {

struct EngineOptions {
  FleetConfig fleet;
  int64_t inter_token_us = 20'000;
  int64_t transfer_us_per_block = 100;
  int64_t lease_ms = 30'000;
  int64_t handshake_timeout_ms = 30'000;
  std::string addresses_file;
  std::string workers_file;
};

void DefineModelOptions(CLI::App& app, EngineOptions& options) {
  EngineConfig& model = options.fleet.model;
  using Service = EngineConfig::Service;
  AddChoice<Service>(
      &app, "--service", &model.service,
      {{"fifo", Service::kFifoPrefill}, {"batching", Service::kContinuousBatching}},
      "fifo: one prefill at a time, decode without limit; batching: steps with a token budget");
  app.add_option("--block-size", model.block_size_tokens, "tokens per KV block")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--blocks", model.capacity_blocks, "blocks per engine, 0 = unlimited")
      ->capture_default_str();
  app.add_option("--prefill-rate", model.prefill_tokens_per_s, "prefill tokens per model second")
      ->check(CLI::Range(1.0, 1e12))
      ->capture_default_str();
  app.add_option("--inter-token-us", options.inter_token_us,
                 "model microseconds between output tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{60'000'000}))
      ->capture_default_str();
  app.add_option("--token-budget", model.token_budget_per_step, "batching: tokens per step")
      ->check(CLI::Range(1u, 1u << 24))
      ->capture_default_str();
  app.add_option("--max-running", model.max_running, "batching: requests per step")
      ->check(CLI::Range(1u, 1u << 16))
      ->capture_default_str();
  app.add_option("--speedup", options.fleet.speedup, "model seconds per real second")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
}

void DefineKvOptions(CLI::App& app, EngineOptions& options) {
  FleetConfig& fleet = options.fleet;
  std::vector<std::string> roles;
  for (const KvRole role : {KvRole::kNone, KvRole::kProducer, KvRole::kConsumer, KvRole::kBoth})
    roles.emplace_back(KvRoleName(role));
  app.add_option_function<std::string>(
         "--kv-role",
         [&fleet](const std::string& name) {
           const KvRole role = kvrouter::KvRoleOf(name).value_or(KvRole::kNone);
           fleet.kv.producer = CanProduce(role);
           fleet.kv.consumer = CanConsume(role);
         },
         "whether kv_transfer_params of requests are heeded; needs --service batching")
      ->check(CLI::IsMember(roles));
  app.add_option("--prefill-engines", fleet.prefill_engines,
                 "the first N engines produce KV only, the others consume it");
  app.add_option("--kv-transfer-us-per-block", options.transfer_us_per_block,
                 "model microseconds for each block that comes from another engine")
      ->check(CLI::Range(int64_t{0}, int64_t{60'000'000}))
      ->capture_default_str();
  app.add_option("--kv-lease-ms", options.lease_ms,
                 "real milliseconds that a producer's blocks stay pinned")
      ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
      ->capture_default_str();
  app.add_option("--kv-handshake-timeout-ms", options.handshake_timeout_ms,
                 "real milliseconds that a consumer waits for its source's answer")
      ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
      ->capture_default_str();
  AddChoice<bool>(
      &app, "--kv-load-failure-policy", &fleet.kv.recompute_on_failure,
      {{"fail", false}, {"recompute", true}},
      "what becomes of a request whose KV cannot be fetched: fail (default), recompute");
  AddChoice<bool>(&app, "--kv-block-ids", &fleet.kv.nested_block_ids,
                  {{"flat", false}, {"nested", true}},
                  "remote_block_ids as one list (flat) or one per group (nested, default)");
  app.add_option("--kv-compatibility", fleet.kv.compatibility,
                 "engines of different ones do not exchange KV")
      ->capture_default_str();
  app.add_option("--kv-side-channel-host", fleet.side_channel_host,
                 "host that handshakes name; default: --host");
}

void DefineWireOptions(CLI::App& app, EngineOptions& options) {
  FleetConfig& fleet = options.fleet;
  app.add_option("--engines", fleet.engines, "engines in this process")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option("--model", fleet.model_name, "served model name")->capture_default_str();
  app.add_option("--chat-template", fleet.chat_template,
                 "name of the template; engines of different ones render a chat differently");
  app.add_option("--max-model-len", fleet.max_model_len_tokens, "longest prompt in tokens")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  app.add_flag("--early-stream-head", fleet.early_stream_head,
               "send the head of a stream before its first token");
  app.add_flag("!--no-render", fleet.render_routes, "without the /render endpoints");
  app.add_option("--dp-rank", fleet.dp_rank, "data-parallel rank of these engines")
      ->check(CLI::Range(0u, 65535u))
      ->capture_default_str();
  app.add_option("--host", fleet.http_host, "address to bind, for HTTP and events")
      ->capture_default_str();
  app.add_option("--http-port", fleet.http_port,
                 "HTTP port of the first engine, + i for engine i; 0 = any");
  app.add_option("--events-port", fleet.live_port, "event (PUB) port, likewise");
  app.add_option("--replay-port", fleet.replay_port, "replay (ROUTER) port, likewise");
  app.add_option("--addresses-file", options.addresses_file,
                 "JSON file for the bound addresses, written when all serve");
  app.add_option("--workers-file", options.workers_file,
                 "YAML file with these engines as kvrouterd's workers 0, 1, ..., for its --config");
  app.add_option("--topic", fleet.events.topic, "first frame of event messages");
  AddChoice<EventForm>(&app, "--event-form", &fleet.events.event_form,
                       {{"array", EventForm::kArray}, {"map", EventForm::kMap}},
                       "events as array (until mid-2026) or map (default)");
  AddChoice<ReplayForm>(&app, "--replay-form", &fleet.events.replay_form,
                        {{"old", ReplayForm::kWithoutTopic}, {"new", ReplayForm::kWithTopic}},
                        "replay answers without topic frame (old) or with it (new, default)");
  app.add_option("--buffer-batches", fleet.events.buffer_batches, "batches kept for replay")
      ->capture_default_str();
  app.add_option("--lose-live-every", fleet.events.lose_live_every,
                 "fault injection: every Nth batch is kept for replay but not sent");
  app.add_option("--max-live-requests", fleet.max_live_requests,
                 "per engine; more are answered 503")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
}

void DefineFaultOptions(CLI::App& app, EngineOptions& options) {
  app.add_flag("--faults", options.fleet.faults,
               "serves an address where engines can be broken, printed as admin=");
  app.add_option("--admin-port", options.fleet.admin_port, "port of that address; 0 = any");
}

nlohmann::ordered_json AddressesJson(const WireFleet& fleet) {
  nlohmann::ordered_json engines = nlohmann::ordered_json::array();
  for (const EngineAddresses& engine : fleet.Addresses()) {
    engines.push_back({{"http", engine.http}, {"events", engine.live}, {"replay", engine.replay}});
  }
  nlohmann::ordered_json addresses = {{"engines", engines}};
  if (const std::string admin = fleet.AdminAddress(); !admin.empty()) addresses["admin"] = admin;
  return addresses;
}

std::string RoleYaml(const FleetConfig& fleet, uint64_t engine) {
  std::string yaml;
  if (fleet.model_name != FleetConfig{}.model_name) {
    yaml += fmt::format("    model_name: \"{}\"\n", fleet.model_name);
  }
  const KvTransferConfig kv = KvRoleOf(fleet, engine);
  if (fleet.prefill_engines > 0) {
    const WorkerRole role =
        engine < fleet.prefill_engines ? WorkerRole::kPrefill : WorkerRole::kDecode;
    yaml += fmt::format("    role: {}\n", WorkerRoleName(role));
  }
  if (kv.producer || kv.consumer) {
    const KvRole role = kv.producer && kv.consumer ? KvRole::kBoth
                        : kv.producer              ? KvRole::kProducer
                                                   : KvRole::kConsumer;
    yaml += fmt::format("    kv_role: {}\n", KvRoleName(role));
  }
  return yaml;
}

std::string WorkersYaml(const EngineOptions& options, const WireFleet& fleet) {
  const EngineConfig& model = options.fleet.model;
  std::string yaml = "workers:\n";
  uint64_t worker_id = 0;
  for (const EngineAddresses& engine : fleet.Addresses()) {
    yaml += fmt::format("  - worker_id: {}\n", worker_id++);
    yaml += fmt::format("    address: \"{}\"\n", engine.http);
    yaml += fmt::format("    block_size: {}\n", model.block_size_tokens);
    yaml += RoleYaml(options.fleet, worker_id - 1);
    if (model.capacity_blocks > 0)
      yaml += fmt::format("    total_kv_blocks: {}\n", model.capacity_blocks);
    yaml += fmt::format("    kv_events_endpoint: \"{}\"\n", engine.live);
    yaml += fmt::format("    replay_endpoint: \"{}\"\n", engine.replay);
  }
  return yaml;
}

// Readers poll for the file: it appears whole or not at all.
bool WriteWhole(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".part";
  std::ofstream out(unfinished, std::ios::trunc);
  out << text;
  out.close();
  return out.good() && std::rename(unfinished.c_str(), path.c_str()) == 0;
}

bool WriteFiles(const EngineOptions& options, const WireFleet& fleet) {
  struct Wanted {
    const std::string& path;
    std::string text;
  };
  // The addresses last: whoever waits for them may read the other at once.
  const Wanted files[] = {{options.workers_file, WorkersYaml(options, fleet)},
                          {options.addresses_file, AddressesJson(fleet).dump(2) + "\n"}};
  for (const Wanted& file : files) {
    if (file.path.empty() || WriteWhole(file.path, file.text)) continue;
    fmt::print(stderr, "kvrouter-sim engine: cannot write {}\n", file.path);
    return false;
  }
  return true;
}

int Serve(const EngineOptions& options) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  // Before any thread: all of them inherit the mask, so only sigwait below sees these signals.
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  WireFleet fleet(options.fleet);
  if (const absl::Status status = fleet.Start(); !status.ok()) {
    const std::string message(status.message().data(), status.message().size());
    fmt::print(stderr, "kvrouter-sim engine: {}\n", message);
    return 1;
  }
  for (const EngineAddresses& engine : fleet.Addresses()) {
    fmt::print("http={} events={} replay={}\n", engine.http, engine.live, engine.replay);
  }
  if (const std::string admin = fleet.AdminAddress(); !admin.empty()) {
    fmt::print("admin={}\n", admin);
  }
  std::fflush(stdout);
  if (!WriteFiles(options, fleet)) return 1;
  int signal = 0;
  sigwait(&stop_signals, &signal);
  fleet.Stop(std::chrono::milliseconds(200));
  return 0;
}

}  // namespace

int RunEngineCommand(int argc, char** argv) {
  EngineOptions options;
  CLI::App app("Serves simulated vLLM engines: events on ZMQ, completions and metrics on HTTP.",
               "kvrouter-sim engine");
  DefineModelOptions(app, options);
  DefineWireOptions(app, options);
  DefineKvOptions(app, options);
  DefineFaultOptions(app, options);
  CLI::Option* hash_seed = app.add_option("--hash-seed", options.fleet.hash_seed,
                                          "one seed for the block hashes of all engines (as "
                                          "PYTHONHASHSEED does); default: random, each its own");
  CLI11_PARSE(app, argc, argv);
  options.fleet.same_hash_seed = hash_seed->count() > 0;
  EngineConfig& model = options.fleet.model;
  model.inter_token = std::chrono::microseconds(options.inter_token_us);
  model.transfer_per_block = std::chrono::microseconds(options.transfer_us_per_block);
  options.fleet.kv.lease = std::chrono::milliseconds(options.lease_ms);
  options.fleet.kv_handshake_timeout = std::chrono::milliseconds(options.handshake_timeout_ms);
  const bool exchanges =
      options.fleet.kv.producer || options.fleet.kv.consumer || options.fleet.prefill_engines > 0;
  if (exchanges && model.service != EngineConfig::Service::kContinuousBatching) {
    fmt::print(stderr, "kvrouter-sim engine: --kv-role needs --service batching\n");
    return 1;
  }
  return Serve(options);
}

}  // namespace kvrouter::sim
