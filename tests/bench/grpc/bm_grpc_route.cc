// What Route costs behind gRPC: unary and on a stream, beside an echo of the same sizes and a
// handler that parses the same request and answers as many bytes, and with explanations off
// (bench_servers.h). Servers and client are two processes on the same machine; the servers take
// turns in short slices, so that noise of the machine falls on all of them. Printed are medians
// over the rounds; a ratio is the median of the rounds' ratios.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench_prompts.h"
#include "bench_servers.h"
#include "closed_loop.h"

namespace kvrouter::bench {
namespace {

struct Options {
  int rounds = 15;
  double slice_seconds = 0.4;
  int in_flight = 8;
  int workers = 8;
  std::string only;
  std::string profile;
  bool serve = false;
};

enum Variant { kEcho, kFixed, kWinner, kRoute, kVariants };
constexpr std::string_view kVariantNames[] = {"echo", "fixed", "winner", "Route"};

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The servers' process.
class ServerProcess {
 public:
  explicit ServerProcess(int workers) {
    int to_child[2];
    int from_child[2];
    KVR_CHECK(pipe(to_child) == 0 && pipe(from_child) == 0, "no pipe");
    const std::string count = std::to_string(workers);
    pid_ = fork();
    KVR_CHECK(pid_ >= 0, "no process");
    if (pid_ == 0) {
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(fd);
      execl("/proc/self/exe", "bm_grpc_route", "--serve", "--workers", count.c_str(), nullptr);
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    input_ = to_child[1];
    FILE* output = fdopen(from_child[0], "r");
    char line[128];
    for (int i = 0; i < kVariants; ++i) {
      KVR_CHECK(fgets(line, sizeof line, output) != nullptr, "the servers did not start");
      line[strcspn(line, "\n")] = '\0';
      // Long-lived calls of one server must not share a connection with another's.
      channels_.push_back(grpc::CreateChannel(line, grpc::InsecureChannelCredentials()));
    }
    fclose(output);
    KVR_CHECK(clock_getcpuclockid(pid_, &clock_) == 0, "no clock of the servers");
  }
  ~ServerProcess() {
    close(input_);
    waitpid(pid_, nullptr, 0);
  }

  const std::shared_ptr<grpc::Channel>& channel(int variant) const { return channels_[variant]; }
  double CpuSeconds() const {
    timespec used{};
    clock_gettime(clock_, &used);
    return Seconds(used);
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  clockid_t clock_{};
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Slice {
  double calls_per_s = 0;
  double server_us = 0;  // CPU time of the servers' process a call
};

class Measurement {
 public:
  Measurement(const Options& options, const ServerProcess& servers)
      : options_(options), servers_(servers) {}

  void Run(Call call, Form form) {
    if (!options_.profile.empty()) {
      const auto name =
          std::find(std::begin(kVariantNames), std::end(kVariantNames), options_.profile);
      KVR_CHECK(name != std::end(kVariantNames), "no server is called {}", options_.profile);
      const auto variant = static_cast<int>(name - std::begin(kVariantNames));
      for (int round = 0; round < options_.rounds; ++round) Measure(call, form, variant);
      return;
    }
    std::vector<Slice> slices[kVariants];
    for (int variant = 0; variant < kVariants; ++variant) Measure(call, form, variant);  // warm-up
    for (int round = 0; round < options_.rounds; ++round) {
      for (int i = 0; i < kVariants; ++i) {
        const int variant = (i + round) % kVariants;  // no one is always after the same other
        slices[variant].push_back(Measure(call, form, variant));
      }
    }
    for (int variant = 0; variant < kVariants; ++variant) Print(call, form, variant, slices);
  }

 private:
  Slice Measure(Call call, Form form, int variant) {
    const double cpu_before = servers_.CpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    const LoopConfig config{
        .call = call, .form = form, .in_flight = options_.in_flight, .first_id = next_id_};
    const uint64_t calls =
        RunClosedLoop(servers_.channel(variant), config,
                      std::chrono::nanoseconds(static_cast<int64_t>(options_.slice_seconds * 1e9)));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    const double cpu_s = servers_.CpuSeconds() - cpu_before;
    if (variant >= kWinner) FreeAll(servers_.channel(variant), next_id_, calls);
    next_id_ += calls;
    const auto n = static_cast<double>(calls);
    return {.calls_per_s = n / time.count(), .server_us = 1e6 * cpu_s / n};
  }

  // Medians of the rounds' ratios.
  static Slice RatioOf(const std::vector<Slice>& slices, const std::vector<Slice>& baseline) {
    std::vector<double> rates, costs;
    for (size_t i = 0; i < slices.size(); ++i) {
      rates.push_back(slices[i].calls_per_s / baseline[i].calls_per_s);
      costs.push_back(slices[i].server_us / baseline[i].server_us);
    }
    return {.calls_per_s = Median(rates), .server_us = Median(costs)};
  }

  static void Print(Call call, Form form, int variant, const std::vector<Slice>* slices) {
    std::vector<double> rates, costs;
    for (const Slice& slice : slices[variant]) {
      rates.push_back(slice.calls_per_s);
      costs.push_back(slice.server_us);
    }
    const Slice ratio = RatioOf(slices[variant], slices[kFixed]);
    fmt::print("{:<7} {:<13} {:<6} {:>10.0f} {:>14.1f} {:>14.2f} {:>14.2f}\n",
               call == Call::kUnary ? "unary" : "stream",
               form == Form::kHashes2Kb ? "hashes, 2 KB" : "tokens, 56 KB", kVariantNames[variant],
               Median(rates), Median(costs), ratio.calls_per_s, ratio.server_us);
    if (variant == kRoute) {
      const Slice explained = RatioOf(slices[kRoute], slices[kWinner]);
      fmt::print("{:>28} explanations: rate x {:.3f}, CPU x {:.3f}\n", "", explained.calls_per_s,
                 explained.server_us);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  const ServerProcess& servers_;
  uint64_t next_id_ = 1;
};

int Run(const Options& options) {
  const ServerProcess servers(options.workers);
  fmt::print("gRPC Route: {} in flight, {} workers, {} rounds of {} s a variant\n",
             options.in_flight, options.workers, options.rounds, options.slice_seconds);
  fmt::print("{:<7} {:<13} {:<6} {:>10} {:>14} {:>14} {:>14}\n", "call", "prompt", "server",
             "calls/s", "server CPU us", "rate / fixed", "CPU / fixed");
  Measurement measurement(options, servers);
  for (const Call call : {Call::kUnary, Call::kStream}) {
    for (const Form form : kForms) {
      const std::string name = fmt::format("{}/{}", call == Call::kUnary ? "unary" : "stream",
                                           form == Form::kHashes2Kb ? "hashes" : "tokens");
      if (name.find(options.only) != std::string::npos) measurement.Run(call, form);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvrouter::bench

int main(int argc, char** argv) {
  kvrouter::bench::Options options;
  CLI::App app("Route over gRPC beside an echo and a handler with a fixed answer.",
               "bm_grpc_route");
  app.allow_extras();  // what tests/run bench gives to all benches
  double brief_seconds = 0;
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 10'000));
  app.add_option("--slice-seconds", options.slice_seconds)->check(CLI::Range(0.001, 60.0));
  app.add_option("--in-flight", options.in_flight)->check(CLI::Range(1, 1024));
  app.add_option("--workers", options.workers)->check(CLI::Range(1, 1024));
  app.add_option("--only", options.only, "unary, stream, hashes, unary/tokens, ...");
  app.add_option("--profile", options.profile, "one server alone, without figures: for a profiler");
  app.add_option("--benchmark_min_time", brief_seconds, "three rounds with slices this long");
  app.add_flag("--serve", options.serve, "the servers' process");
  CLI11_PARSE(app, argc, argv);
  if (brief_seconds > 0) {
    options.rounds = 3;
    options.slice_seconds = brief_seconds;
  }
  return options.serve ? kvrouter::bench::ServeUntilInputEnds(options.workers)
                       : kvrouter::bench::Run(options);
}
