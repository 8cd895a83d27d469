#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>

#include "bench_engine.h"
#include "bench_load.h"
#include "bench_proxy.h"

// The parts of dispatch_figures.py, each a process of its own: an engine, a bare proxy, a load.
// Engine and proxy print their address and end with their standard input.

namespace kvrouter {
namespace {

int Serve(HttpServer* server) {
  if (const absl::Status status = server->Start(); !status.ok()) {
    fmt::print(stderr, "{}\n", std::string(status.message()));
    return 1;
  }
  fmt::print("{}\n", server->Address());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

double Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

int Main(int argc, char** argv) {
  CLI::App app("Parts of the dispatch bench");
  app.require_subcommand(1);
  HttpServerConfig http;
  EngineLinkConfig link_config;
  BenchLoad load;
  bool hold = false;
  http.max_connections = 20000;
  http.write_timeout = std::chrono::minutes(10);
  link_config.max_connections = 20000;
  link_config.max_idle_connections = 2000;

  CLI::App* engine = app.add_subcommand("engine");
  CLI::App* proxy = app.add_subcommand("proxy");
  CLI::App* loader = app.add_subcommand("load");
  for (CLI::App* server : {engine, proxy}) {
    server->add_option("--certificate", http.tls.certificate_file);
    server->add_option("--key", http.tls.key_file);
  }
  for (CLI::App* client : {proxy, loader}) {
    client->add_option("--ca", link_config.tls.ca_file);
    client->add_option("url", load.url)->required();
  }
  loader->add_option("--requests", load.requests);
  loader->add_option("--concurrency", load.concurrency);
  loader->add_option("--prompt-tokens", load.prompt_tokens);
  loader->add_option("--max-tokens", load.max_tokens);
  loader->add_flag("--hold", hold);
  CLI11_PARSE(app, argc, argv);

  if (engine->parsed()) return Serve(MakeBenchEngine(http).get());
  HttpEngineLink link(link_config);
  if (const absl::Status status = link.Start(); !status.ok()) {
    fmt::print(stderr, "{}\n", std::string(status.message()));
    return 1;
  }
  if (proxy->parsed()) return Serve(MakeBenchProxy(http, load.url, &link).get());
  if (hold) {
    fmt::print("{}\n", HoldStreams(load, &link));
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);
    return 0;
  }
  const BenchFigures figures = RunLoad(load, &link);
  fmt::print(R"({{"requests":{},"failed":{},"seconds":{:.3f},"ttft_p50_ms":{:.3f},)"
             R"("ttft_p99_ms":{:.3f},"total_p50_ms":{:.3f}}})"
             "\n",
             figures.ttft_ms.size(), figures.failed, figures.seconds,
             Quantile(figures.ttft_ms, 0.5), Quantile(figures.ttft_ms, 0.99),
             Quantile(figures.total_ms, 0.5));
  return 0;
}

}  // namespace
}  // namespace kvrouter

int main(int argc, char** argv) { return kvrouter::Main(argc, argv); }
