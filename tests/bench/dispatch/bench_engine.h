#ifndef KVROUTER_TESTS_BENCH_DISPATCH_BENCH_ENGINE_H_
#define KVROUTER_TESTS_BENCH_DISPATCH_BENCH_ENGINE_H_

#include <memory>
#include <string>

#include "adapters/http/http_server.h"

namespace kvrouter {

// An engine that costs nothing: answers completions with `max_tokens` events at once, or, asked for
// "hold":true, with one event and then nothing until the client leaves.
std::unique_ptr<HttpServer> MakeBenchEngine(HttpServerConfig config);

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_BENCH_DISPATCH_BENCH_ENGINE_H_
