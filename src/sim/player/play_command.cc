#include "sim/player/play_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/cli_choice.h"
#include "base/status_macros.h"
#include "client/router_client.h"
#include "sim/player/play_figures.h"
#include "sim/player/player.h"
#include "sim/player/progress_line.h"
#include "sim/trace/trace.h"

namespace kvrouter::sim {
namespace {

constexpr std::chrono::milliseconds kListTimeout{10'000};

struct PlayOptions {
  PlayConfig play;
  std::string trace_path;
  uint32_t block_size_tokens = 0;
  std::string router_grpc = "127.0.0.1:8093";
  std::string router_http = "127.0.0.1:8092";
  std::string json_file;
  std::string label;
};

const std::map<std::string, PlayPolicy> kPolicies = {{"kv", PlayPolicy::kKv},
                                                     {"round_robin", PlayPolicy::kRoundRobin},
                                                     {"random", PlayPolicy::kRandom}};

std::string PolicyLabel(PlayPolicy policy) {
  for (const auto& [name, known] : kPolicies) {
    if (known == policy) return name;
  }
  return "?";
}

void DefineOptions(CLI::App& app, PlayOptions& options) {
  app.add_option("trace", options.trace_path, "trace file: plain, .gz or .xz")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--block-size", options.block_size_tokens,
                 "tokens per block of the trace and of the engines")
      ->required()
      ->check(CLI::Range(1u, 1u << 20));
  AddChoice(&app, "--policy", &options.play.policy, kPolicies,
            "kv: the router chooses; round_robin, random: chosen here and pinned");
  app.add_option("--router", options.router_grpc, "gRPC address of kvrouterd")
      ->capture_default_str();
  app.add_option("--router-http", options.router_http, "its HTTP address, for /metrics")
      ->capture_default_str();
  app.add_option("--speedup", options.play.speedup,
                 "recorded seconds per real second; give the engines the same")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  app.add_option("--max-requests", options.play.max_requests, "only the first N rows; 0 = all")
      ->capture_default_str();
  app.add_option("--max-in-flight", options.play.max_in_flight,
                 "requests at a time; beyond it they leave late")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20))
      ->capture_default_str();
  app.add_option("--model", options.play.model_name,
                 "model name for router and engines; default: the router's default");
  app.add_option(
      "--door", options.play.door,
      "http://HOST:PORT of kvrouterd's OpenAI door: requests go there, as a client's do, "
      "instead of to the engines");
  app.add_option("--label", options.label, "name of the row; default: the policy");
  app.add_option("--seed", options.play.seed, "of policy random")->capture_default_str();
  app.add_option("--json", options.json_file, "writes the row to this file as well");
}

// One target a rank. Engines are where the router says they are, so nobody has to be told twice.
absl::StatusOr<std::vector<PlayTarget>> ListTargets(const PlayOptions& options) {
  client::RouterClient client(options.router_grpc, kListTimeout);
  KVR_ASSIGN_OR_RETURN(const v1::ListResponse list, client.ListWorkers());
  std::vector<PlayTarget> targets;
  const std::string model = options.play.model_name.empty() ? "default" : options.play.model_name;
  for (const v1::Worker& worker : list.workers()) {
    const v1::WorkerSpec& spec = worker.spec();
    if (spec.model_name() != model && !(spec.model_name().empty() && model == "default")) continue;
    if (spec.block_size_tokens() != options.block_size_tokens) {
      return absl::FailedPreconditionError(
          fmt::format("worker {} has blocks of {} tokens, --block-size is {}", spec.worker_id(),
                      spec.block_size_tokens(), options.block_size_tokens));
    }
    const uint32_t ranks = std::max(1u, spec.dp_size());
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      targets.push_back({.worker_id = spec.worker_id(),
                         .dp_rank = spec.dp_start_rank() + rank,
                         .address = spec.address(),
                         .one_of_many = ranks > 1});
    }
  }
  if (targets.empty()) {
    return absl::NotFoundError(
        fmt::format("{} lists no worker of model \"{}\"", options.router_grpc, model));
  }
  return targets;
}

std::vector<std::string> DistinctAddresses(const std::vector<PlayTarget>& targets) {
  std::vector<std::string> addresses;
  for (const PlayTarget& target : targets) addresses.push_back(target.address);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

// Runs the player; SIGINT and SIGTERM stop it.
PlayOutcome PlayUntilStopped(Player& player, const std::string& title) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  const std::jthread waiter([&](const std::stop_token& run_ended) {
    const timespec period{.tv_sec = 0, .tv_nsec = 100'000'000};
    while (!run_ended.stop_requested()) {
      if (sigtimedwait(&stop_signals, nullptr, &period) > 0) player.Stop();
    }
  });
  ProgressLine line(stderr, title);
  const PlayOutcome outcome =
      player.Run([&](const PlayProgress& progress) { line.Show(progress); });
  line.Finish();
  return outcome;
}

absl::Status WriteRow(const std::string& path, const PolicyRow& row) {
  std::ofstream out(path, std::ios::trunc);
  out << PolicyRowsToJson({row});
  out.close();
  if (!out.good()) return absl::UnavailableError(fmt::format("cannot write --json {}", path));
  return absl::OkStatus();
}

absl::Status Play(const PlayOptions& options) {
  KVR_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(options.trace_path, options.block_size_tokens));
  KVR_ASSIGN_OR_RETURN(const std::vector<PlayTarget> targets, ListTargets(options));
  const std::vector<std::string> addresses = DistinctAddresses(targets);
  KVR_ASSIGN_OR_RETURN(const CounterSums before, ScrapeCounters(options.router_http, addresses));
  Player player(options.play, trace, targets, options.router_grpc);
  const std::string policy =
      options.label.empty() ? PolicyLabel(options.play.policy) : options.label;
  const PlayOutcome outcome = PlayUntilStopped(player, fmt::format("{} {}", trace.name, policy));
  if (outcome.stopped) return absl::CancelledError("stopped by a signal");
  KVR_ASSIGN_OR_RETURN(const CounterSums after, ScrapeCounters(options.router_http, addresses));

  PolicyRow row = MakeRow(before, after, outcome, options.play.speedup);
  row.trace = trace.name;
  row.policy = policy;
  fmt::print(
      "{}requests left {:.3f} s (p50), {:.3f} s (p99), {:.3f} s (max) late, in recorded seconds\n",
      FormatPolicyTable({row}), row.details["late_p50_model_s"], row.details["late_p99_model_s"],
      row.details["late_max_model_s"]);
  if (!options.play.door.empty()) {
    fmt::print("engines computed {:.3f} of every prompt token\n",
               row.details["computed_per_prompt_token"]);
  }
  for (const auto& [plan, requests] : outcome.plans) fmt::print("{:>8}  {}\n", requests, plan);
  if (!options.json_file.empty()) KVR_RETURN_IF_ERROR(WriteRow(options.json_file, row));
  if (outcome.failed > 0) {
    return absl::InternalError(fmt::format("{} of {} requests had failures, the first: {}",
                                           outcome.failed, outcome.sent, outcome.first_failure));
  }
  return absl::OkStatus();
}

}  // namespace

int RunPlayCommand(int argc, char** argv) {
  PlayOptions options;
  CLI::App app("Plays a trace against a running kvrouterd and its engines.", "kvrouter-sim play");
  DefineOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  if (!options.play.door.empty() && options.play.policy != PlayPolicy::kKv) {
    fmt::print(stderr, "kvrouter-sim play: behind --door the router chooses, so --policy is kv\n");
    return 1;
  }
  // Before any thread: gRPC's inherit the mask, so only the waiter sees these signals.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  // Another run against the same router must not meet this one's request ids.
  options.play.run_id = fmt::format("play-{}", ::getpid());
  const absl::Status status = Play(options);
  if (status.ok()) return 0;
  const std::string message(status.message().data(), status.message().size());
  fmt::print(stderr, "kvrouter-sim play: {}\n", message);
  return 1;
}

}  // namespace kvrouter::sim
