// A daemon reduced to its gRPC doors, for clients in other languages: prints the address it listens
// on and serves until its standard input ends.
#include <cstdio>
#include <string>

#include "adapters/grpc/grpc_server.h"
#include "base/clock.h"

int main() {
  using namespace kvrouter;  // NOLINT: a test's main
  Router router(RouterConfig(), nullptr);
  WorkerRegistry registry(&router);
  RoutingService service(ServiceConfig(), &router, &SteadyClock());
  FeedMonitor feeds;
  PublishedFeeds published(PublishedFeedsConfig(), &router, &feeds, &SteadyClock());
  registry.AddListener(&published);
  GrpcServer server(
      GrpcServerConfig(),
      {.routing = &service,
       .workers = &registry,
       .feeds = &feeds,
       .router = &router,
       .published = &published});
  if (const absl::Status status = server.Start(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  server.SetServing(true);
  std::printf("%s\n", server.Address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server.Stop(std::chrono::milliseconds(1000));
  return 0;
}
