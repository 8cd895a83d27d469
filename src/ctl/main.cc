#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "base/cli_choice.h"
#include "ctl/bench/bench_command.h"
#include "ctl/commands.h"
#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/doctor_text.h"
#include "ctl/doctor/gather.h"
#include "ctl/replay/replay_command.h"
#include "kvrouter/decision_record.h"

namespace {

using kvrouter::ctl::BenchCall;
using kvrouter::ctl::BenchOptions;
using kvrouter::ctl::Connection;
using kvrouter::ctl::RegisterOptions;
using kvrouter::ctl::RouteOptions;
using Command = std::function<absl::StatusOr<std::string>()>;

struct Options {
  Connection connection;
  double timeout_s = 5;
  RouteOptions route;
  RegisterOptions worker;
  std::string free_id;
  std::string explain_id;
  std::string metrics_prefix;
  kvrouter::ctl::DumpOptions dump;
  BenchOptions bench;
  kvrouter::ctl::DoctorOptions doctor;
  kvrouter::ctl::ReplayOptions replay;
  double doctor_window_s = 0;
  int exit_code = 0;  // of a command that succeeded
  Command command;
};

void DeclarePrompt(CLI::App* app, RouteOptions* r) {
  app->add_option("--tokens", r->tokens, "1,2,3 | START-END | @FILE | @- (standard input)")
      ->required();
  app->add_option("--model", r->model_name, "model name (default: default)");
  app->add_option("--group", r->routing_group, "routing group (default: default)");
  app->add_option("--lora", r->lora_name, "LoRA adapter name");
  app->add_option("--salt", r->cache_salt, "cache salt");
}

void DeclareRoute(CLI::App* app, Options* options) {
  CLI::App* route =
      app->add_subcommand("route", "ask for a worker and book it; prints every candidate's cost");
  RouteOptions& r = options->route;
  DeclarePrompt(route, &r);
  route->add_option("--request-id", r.request_id, "name of the booking (default: generated)");
  route->add_option("--pin", r.pin, "WORKER or WORKER/RANK: use exactly this one");
  route->add_option("--expected-output-tokens", r.expected_output_tokens,
                    "how many tokens will be generated");
  route->add_flag("--advise", r.advise, "only ask; book nothing");
  route->callback([options] {
    options->command = [options] { return RouteOnce(options->connection, options->route); };
  });
}

void DeclareWorkerCommands(CLI::App* app, Options* options) {
  CLI::App* add = app->add_subcommand("register", "add a worker or replace its record");
  RegisterOptions& r = options->worker;
  add->add_option("ID", r.worker_id, "worker id")->required();
  add->add_option("--address", r.address, "where callers dispatch, returned to them as is")
      ->required();
  add->add_option("--block-size", r.block_size_tokens, "tokens per KV block")->required();
  add->add_option("--model", r.model_name, "model name (default: default)");
  add->add_option("--group", r.routing_group, "routing group (default: default)");
  add->add_option("--dp-size", r.dp_size, "data-parallel ranks, from 0")->capture_default_str();
  add->add_flag("--eagle", r.is_eagle, "its events name tokens in pairs (SGLang with EAGLE)");
  add->add_option("--image-token-id", r.image_token_id,
                  "token that stands for images in its events, if callers send pad values");
  add->add_option("--events", r.events, "ZMQ PUB endpoint of a rank; once per rank, from 0");
  add->add_option("--replay", r.replay, "ZMQ replay endpoint of a rank, likewise");
  add->callback([options] {
    options->command = [options] { return RegisterWorker(options->connection, options->worker); };
  });
  const auto with_id = [app, options](const char* name, const char* help, auto call) {
    CLI::App* command = app->add_subcommand(name, help);
    command->add_option("ID", options->worker.worker_id, "worker id")->required();
    command->callback([options, call] {
      options->command = [options, call] {
        return call(options->connection, options->worker.worker_id);
      };
    });
  };
  with_id("drain", "no new requests for a worker; running ones stay", kvrouter::ctl::DrainWorker);
  with_id("remove", "forget a worker, its blocks and its bookings", kvrouter::ctl::RemoveWorker);
}

void DeclareBench(CLI::App* app, Options* options) {
  CLI::App* bench = app->add_subcommand(
      "bench", "load the daemon with requests and show throughput, latencies and errors");
  BenchOptions& b = options->bench;
  kvrouter::AddChoice<BenchCall>(bench, "--call", &b.call,
                                 {{"route", BenchCall::kRoute}, {"stream", BenchCall::kStream}},
                                 "route: unary calls; stream: messages on streams");
  bench->add_option("--concurrency", b.concurrency, "requests in flight at most")
      ->capture_default_str();
  bench->add_option("--requests", b.requests, "stop after so many");
  bench->add_option("--seconds", b.seconds, "stop after so long (default: 10, unless --requests)");
  bench->add_option("--tokens", b.tokens, "prompts this long, as token ids (default: 2048)");
  bench->add_option("--hashes", b.hashes, "prompts this long in tokens, as block hashes");
  bench->add_option("--shared", b.shared_fraction, "part of each prompt that others share, 0..1")
      ->capture_default_str();
  bench->add_option("--prefixes", b.shared_prefixes, "how many different shared starts there are")
      ->capture_default_str();
  bench->add_option("--rate", b.rate_per_s,
                    "requests a second, whatever the answers do; latency counts from when a "
                    "request was due (default: as fast as answers come)");
  bench->add_option("--seed", b.seed, "the same seed makes the same prompts")
      ->capture_default_str();
  bench->add_option("--model", b.model_name, "model name (default: default)");
  bench->add_option("--group", b.routing_group, "routing group (default: default)");
  bench->add_flag("--advise", b.advise, "only ask; book nothing");
  bench->callback([options] {
    options->command = [options]() -> absl::StatusOr<std::string> {
      const absl::Status status = kvrouter::ctl::RunBench(options->connection, options->bench);
      if (!status.ok()) return status;
      return std::string();  // printed already, as it is when something failed
    };
  });
}

void DeclareDoctor(CLI::App* app, Options* options) {
  CLI::App* doctor = app->add_subcommand(
      "doctor",
      "what is wrong with a daemon and its workers, worst first, and what to do; exit "
      "code 0: nothing, 1: warnings, 2: something critical");
  doctor
      ->add_option("--window", options->doctor_window_s,
                   "judge what the daemon counts in so many seconds from now (default: all that "
                   "it counted since its start)")
      ->check(CLI::Range(0.0, 3600.0));
  doctor->add_flag("--skip-workers", options->doctor.skip_workers,
                   "do not ask the workers' own /health and /metrics");
  doctor->callback([options] {
    options->command = [options]() -> absl::StatusOr<std::string> {
      options->doctor.window =
          std::chrono::milliseconds(static_cast<int64_t>(options->doctor_window_s * 1000));
      const auto seen = kvrouter::ctl::Gather(options->connection, options->doctor);
      const auto findings = kvrouter::ctl::Diagnose(seen);
      options->exit_code = kvrouter::ctl::ExitCode(findings);
      return options->connection.json ? kvrouter::ctl::FindingsJson(seen, findings)
                                      : kvrouter::ctl::FindingsText(seen, findings);
    };
  });
}

void DeclareReplay(CLI::App* app, Options* options) {
  CLI::App* replay = app->add_subcommand("replay",
                                         "make the decisions of a decision log again, with other "
                                         "settings, and show what would change; "
                                         "exit code 1: with unchanged settings something did");
  replay
      ->add_option("LOG", options->replay.path,
                   "the daemon's decision_log_path; LOG.1 and so on "
                   "are read before it")
      ->required();
  replay
      ->add_option("--set", options->replay.set,
                   "KEY=VALUE of a setting of the choice: " + kvrouter::PolicyKeys())
      ->allow_extra_args(false);
  replay->add_option("--show", options->replay.show, "decisions that would move, one line each")
      ->capture_default_str();
  replay->callback([options] {
    options->command = [options]() -> absl::StatusOr<std::string> {
      options->replay.json = options->connection.json;
      const auto outcome = kvrouter::ctl::Replay(options->replay);
      if (!outcome.ok()) return outcome.status();
      options->exit_code = outcome->exit_code;
      std::fwrite(outcome->notes.data(), 1, outcome->notes.size(), stderr);
      return outcome->output;
    };
  });
}

void Declare(CLI::App* app, Options* options) {
  app->require_subcommand(0, 1);  // none is told apart from an unknown one after parsing
  app->fallthrough();             // global options may also follow the command
  Connection& connection = options->connection;
  app->add_option("--grpc", connection.grpc, "the daemon's gRPC door, HOST:PORT")
      ->envname("KVROUTER_GRPC")
      ->capture_default_str();
  app->add_option("--http", connection.http, "the daemon's HTTP door, HOST:PORT (metrics)")
      ->envname("KVROUTER_HTTP")
      ->capture_default_str();
  app->add_option("--timeout", options->timeout_s, "seconds to wait for an answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app->add_flag("--json", connection.json, "JSON instead of tables");

  app->add_subcommand("workers", "who is there, and is its event feed live")->callback([options] {
    options->command = [options] { return ShowWorkers(options->connection); };
  });
  DeclareWorkerCommands(app, options);
  DeclareRoute(app, options);
  DeclareBench(app, options);
  DeclareDoctor(app, options);
  DeclareReplay(app, options);
  CLI::App* overlap = app->add_subcommand("overlap", "how much of a prompt each worker holds");
  DeclarePrompt(overlap, &options->route);
  overlap->callback([options] {
    options->command = [options] { return ShowOverlap(options->connection, options->route); };
  });
  CLI::App* free = app->add_subcommand("free", "end a booking");
  free->add_option("ID", options->free_id, "request id")->required();
  free->callback([options] {
    options->command = [options] { return FreeRequest(options->connection, options->free_id); };
  });
  CLI::App* explain =
      app->add_subcommand("explain", "why a recent request went where it went, in all its terms");
  explain->add_option("ID", options->explain_id, "request id")->required();
  explain->callback([options] {
    options->command = [options] {
      return ExplainRequest(options->connection, options->explain_id);
    };
  });
  CLI::App* dump = app->add_subcommand(
      "dump", "what the workers of a model hold: a line of JSON per stored event");
  dump->add_option("--model", options->dump.model_name, "model name (default: default)");
  dump->add_option("--group", options->dump.routing_group, "routing group (default: default)");
  dump->callback([options] {
    options->command = [options]() -> absl::StatusOr<std::string> {
      const absl::StatusOr<std::string> summary = Dump(options->connection, options->dump);
      if (!summary.ok()) return summary;
      std::fwrite(summary->data(), 1, summary->size(), stderr);
      return std::string();
    };
  });
  app->add_subcommand("loads", "load of every target as the scheduler sees it")
      ->callback(
          [options] { options->command = [options] { return ShowLoads(options->connection); }; });
  CLI::App* metrics = app->add_subcommand("metrics", "hit rates, load and feeds from /metrics");
  metrics->add_option("PREFIX", options->metrics_prefix, "show all series whose name begins so");
  metrics->callback([options] {
    options->command = [options] {
      return ShowMetrics(options->connection, options->metrics_prefix);
    };
  });
}

int Fail(std::string_view message) {
  // One line, whatever the message holds.
  std::string line(message);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "kvrouterctl: %s\n", line.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Asks a running kvrouterd.", "kvrouterctl");
  Options options;
  Declare(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Fail(error.what());
  }
  if (!options.command) return Fail("say what to do; kvrouterctl --help lists the commands");
  if (std::isnan(options.timeout_s)) return Fail("--timeout: nan is no number of seconds");
  options.connection.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  const absl::StatusOr<std::string> output = options.command();
  if (!output.ok()) {
    return Fail({output.status().message().data(), output.status().message().size()});
  }
  std::fwrite(output->data(), 1, output->size(), stdout);
  return options.exit_code;
}
