#ifndef KVROUTER_TESTS_BENCH_DISPATCH_BENCH_PROXY_H_
#define KVROUTER_TESTS_BENCH_DISPATCH_BENCH_PROXY_H_

#include <memory>
#include <string>

#include "adapters/engine_http/http_engine_link.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// A bare pass-through proxy on the server and the link that the OpenAI door is built on: what is
// left of dispatch without a decision, a look at the body or any accounting. `link` outlives it.
std::unique_ptr<HttpServer> MakeBenchProxy(HttpServerConfig config, std::string engine_url,
                                           HttpEngineLink* link);

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_BENCH_DISPATCH_BENCH_PROXY_H_
