#include "sim/virtual/virtual_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "sim/trace/trace.h"
#include "sim/virtual/policy_table.h"
#include "sim/virtual/router_settings.h"
#include "sim/virtual/simulation.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {
namespace {

struct Options {
  std::string trace_path;
  uint32_t block_size_tokens = 0;
  std::vector<std::string> policies{"all"};
  std::vector<std::string> settings;
  uint32_t runs = 5;
  std::string service = "fifo_prefill";
  int64_t transfer_us_per_block = 100;
  std::string json_path;
  SimulationConfig simulation;
};

void Describe(CLI::App& app, Options& options) {
  SimulationConfig& simulation = options.simulation;
  app.option_defaults()->always_capture_default();
  app.add_option("--virtual", options.trace_path, "trace file: plain, .gz or .xz")
      ->required()
      ->type_name("TRACE");
  app.add_option("--block-size", options.block_size_tokens, "tokens a block of the trace's ids")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--workers", simulation.workers, "engines")->check(CLI::Range(1, 4096));
  app.add_option("--blocks", simulation.engine.capacity_blocks,
                 "prefix-cache blocks of an engine; 0 = unlimited");
  app.add_option("--policy", options.policies,
                 "kv, round_robin, random, least_loaded or all; several with commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"kv", "round_robin", "random", "least_loaded", "all"}));
  app.add_option("--set", options.settings,
                 "router setting key=value, may be repeated: " + KnownSettings());
  app.add_flag("--sequential", simulation.sequential,
               "decide each request after the blocks of the one before are visible");
  app.add_option("--json", options.json_path, "also write the table to this file as JSON");
  app.add_option("--seed", simulation.seed, "of everything random");
  app.add_option("--runs", options.runs, "figures are means over so many runs, seeds counting up")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--speedup", simulation.speedup, "arrivals this much faster than recorded")
      ->check(CLI::PositiveNumber);
  app.add_option("--service", options.service, "engine model")
      ->check(CLI::IsMember({"fifo_prefill", "continuous_batching"}));
  app.add_option("--prefill-tokens-per-s", simulation.engine.prefill_tokens_per_s,
                 "prefill rate of an engine")
      ->check(CLI::PositiveNumber);
  app.add_option("--kv-transfer-us-per-block", options.transfer_us_per_block,
                 "what a block that comes from another engine takes (kv_migration=migrate)")
      ->check(CLI::Range(0, 1'000'000'000));
}

std::vector<Policy> ChosenPolicies(const std::vector<std::string>& names) {
  std::vector<Policy> policies;
  for (const Policy policy : kAllPolicies) {
    for (const std::string& name : names) {
      if (name != "all" && name != PolicyName(policy)) continue;
      policies.push_back(policy);
      break;
    }
  }
  return policies;
}

std::string Title(const Trace& trace, const SimulationConfig& config, uint32_t runs) {
  const uint64_t blocks = config.engine.capacity_blocks;
  return fmt::format("{}: {} requests, block {}; {} workers x {} blocks{}{}\n", trace.name,
                     trace.rows.size(), trace.block_size_tokens, config.workers,
                     blocks == 0 ? "unlimited" : std::to_string(blocks),
                     config.sequential ? "; sequential" : "",
                     runs > 1 ? fmt::format("; means of {} runs", runs) : "");
}

absl::Status Run(Options options) {
  SimulationConfig& simulation = options.simulation;
  for (const std::string& setting : options.settings) {
    KVR_RETURN_IF_ERROR(ApplySetting(setting, &simulation.router));
  }
  KVR_RETURN_IF_ERROR(Validate(simulation.router));
  if (options.service == "continuous_batching") {
    simulation.engine.service = EngineConfig::Service::kContinuousBatching;
  }
  simulation.engine.transfer_per_block = std::chrono::microseconds(options.transfer_us_per_block);
  simulation.engine.block_size_tokens = options.block_size_tokens;
  KVR_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(options.trace_path, options.block_size_tokens));
  const TraceBlocks blocks(trace);
  std::vector<PolicyFigures> rows;
  for (const Policy policy : ChosenPolicies(options.policies)) {
    simulation.policy = policy;
    KVR_ASSIGN_OR_RETURN(const PolicyFigures figures,
                         SimulateMean(blocks, simulation, options.runs));
    rows.push_back(figures);
  }
  fmt::print("{}{}", Title(trace, simulation, options.runs), FormatTable(rows));
  if (simulation.sequential) fmt::print("{}", FormatSums(rows));
  fmt::print("{}", FormatMoves(rows, simulation));
  if (options.json_path.empty()) return absl::OkStatus();
  std::ofstream json(options.json_path);
  json << FormatJson(trace, rows);
  json.close();
  if (!json) {
    return absl::UnavailableError(fmt::format("cannot write --json {}", options.json_path));
  }
  return absl::OkStatus();
}

}  // namespace

int RunVirtualCommand(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Routes a trace over a fleet of simulated engines in virtual time.", "kvrouter-sim");
  Describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  const absl::Status status = Run(std::move(options));
  if (status.ok()) return 0;
  fmt::print(stderr, "kvrouter-sim: {}\n", std::string(status.message()));
  return 1;
}

}  // namespace kvrouter::sim
