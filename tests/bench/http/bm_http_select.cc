// What a selection costs behind HTTP. Client and server share this process; the claim is the ratio
// to BM_HttpEcho in the same run: the same server and the same client, a body and an answer of the
// same sizes, and a handler that reads nothing of it. Time is per call of one closed-loop client on
// a kept connection.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <string>

#include "adapters/http/http_server.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "base/check.h"
#include "base/clock.h"

namespace kvrouter {
namespace {

constexpr int kWorkers = 8;
constexpr uint32_t kBlockTokens = 16;
constexpr uint64_t kWarmBlocks = 800;

// A client as plain as can be: one write, reads until the answer is whole.
class Client {
 public:
  explicit Client(const std::string& address) {
    const size_t colon = address.rfind(':');
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
    KVR_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0,
              "cannot connect");
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The size of the answer's body. Anything but 200 ends the benchmark.
  size_t Call(const std::string& request) {
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t more = send(fd_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      KVR_CHECK(more > 0, "cannot send");
      sent += static_cast<size_t>(more);
    }
    answer_.clear();
    for (;;) {
      char chunk[16384];
      const ssize_t got = recv(fd_, chunk, sizeof(chunk), 0);
      KVR_CHECK(got > 0, "server closed");
      answer_.append(chunk, static_cast<size_t>(got));
      const size_t head_end = answer_.find("\r\n\r\n");
      if (head_end == std::string::npos) continue;
      KVR_CHECK(answer_.starts_with("HTTP/1.1 200"), "{}", answer_);
      const size_t at = answer_.find("Content-Length: ") + 16;
      size_t body_bytes = 0;
      std::from_chars(answer_.data() + at, answer_.data() + head_end, body_bytes);
      if (answer_.size() == head_end + 4 + body_bytes) return body_bytes;
    }
  }

 private:
  int fd_ = -1;
  std::string answer_;
};

// One daemon's worth behind the door: 8 workers, each holding the first 800 blocks of the hashes.
struct Daemon {
  Router router{RouterConfig(), nullptr};
  WorkerRegistry registry{&router};
  RoutingService service{ServiceConfig(), &router, &SteadyClock()};
  SelectionWorkers workers{&registry};
  SelectCache cache{SelectCacheConfig()};
  SelectionApi api{{.routing = &service,
                    .workers = &workers,
                    .cache = &cache,
                    .router = &router,
                    .clock = &SteadyClock(),
                    .readiness = [] { return Readiness{}; }}};
  size_t echo_bytes = 0;  // the size of the echo's answer; set while no call runs
  HttpServer server{HttpServerConfig()};

  Daemon() {
    for (uint64_t id = 1; id <= kWorkers; ++id) AddWorker(WorkerId{id});
    api.AddRoutes(&server);
    server.Route("POST", "/echo", [this](const HttpRequest&) {
      return HttpResponse{.headers = {}, .body = std::string(echo_bytes, 'x')};
    });
    KVR_CHECK(server.Start().ok(), "no server");
  }

  void AddWorker(WorkerId id) {
    WorkerSpec spec;
    spec.id = id;
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = kBlockTokens;
    const auto stored = registry.Register(spec);
    KVR_CHECK(stored.ok(), "worker refused");
    Stored blocks;
    for (uint64_t i = 1; i <= kWarmBlocks; ++i)
      blocks.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
    KvEvent event;
    event.target.worker = id;
    event.incarnation = stored->incarnation;
    event.data = std::move(blocks);
    KVR_CHECK(router.Apply(event).status == ApplyStatus::kOk, "blocks refused");
  }
};

Daemon& TheDaemon() {
  static Daemon daemon;
  return daemon;
}

std::string Request(std::string_view path, std::string_view body, std::string_view headers = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n{}Content-Length: "
      "{}\r\n\r\n{}",
      path, headers, body.size(), body);
}

std::string List(int64_t count, const std::function<int64_t(int64_t)>& item) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", item(i));
  return text;
}

// As vocabularies have them: mostly 5 or 6 digits.
std::string TokensBody(int64_t tokens) {
  return fmt::format(R"({{"token_ids":[{}]}})",
                     List(tokens, [](int64_t i) { return (i * 7919) % 150'000; }));
}
std::string HashesBody(int64_t blocks) {
  const auto sequence = [](int64_t i) {
    return static_cast<int64_t>(static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15ull);
  };
  return fmt::format(R"({{"block_hashes":[{}],"sequence_hashes":[{}],"isl_tokens":{}}})",
                     List(blocks, [](int64_t i) { return i + 1; }), List(blocks, sequence),
                     blocks * kBlockTokens);
}

void Calls(benchmark::State& state, const std::string& request) {
  Client client(TheDaemon().server.Address());
  size_t answer_bytes = 0;
  for (auto _ : state) answer_bytes = client.Call(request);
  state.counters["request_bytes"] = static_cast<double>(request.size());
  state.counters["answer_bytes"] = static_cast<double>(answer_bytes);
}

// The echo takes the sizes of the selection it is the baseline of.
void Echo(benchmark::State& state, const std::string& body) {
  Daemon& daemon = TheDaemon();
  daemon.echo_bytes = Client(daemon.server.Address()).Call(Request("/select", body));
  Calls(state, Request("/echo", body));
}

void BM_HttpEcho_Hashes(benchmark::State& state) { Echo(state, HashesBody(state.range(0))); }
void BM_HttpSelect_Hashes(benchmark::State& state) {
  Calls(state, Request("/select", HashesBody(state.range(0))));
}
void BM_HttpSelect_HashesExplained(benchmark::State& state) {
  Calls(state, Request("/select", HashesBody(state.range(0)), "x-route-explain: 1\r\n"));
}
void BM_HttpEcho_Tokens(benchmark::State& state) { Echo(state, TokensBody(state.range(0))); }
void BM_HttpSelect_Tokens(benchmark::State& state) {
  Calls(state, Request("/select", TokensBody(state.range(0))));
}
// Of which reading the body alone.
void BM_ReadBody_Tokens(benchmark::State& state) {
  std::string body = TokensBody(state.range(0));
  body.reserve(body.size() + kBodyPaddingBytes);
  for (auto _ : state) {
    auto read = ReadSelectionBody(body, BodyKind::kSelect);
    KVR_CHECK(read.ok(), "body refused");
    benchmark::DoNotOptimize(read);
  }
  state.SetBytesProcessed(static_cast<int64_t>(body.size()) * state.iterations());
}

// 2 KB and 27 KB as hashes; 26 KB, 54 KB and 660 KB as tokens.
BENCHMARK(BM_HttpEcho_Hashes)->Arg(80)->Arg(800)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_HttpSelect_Hashes)->Arg(80)->Arg(800)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_HttpSelect_HashesExplained)->Arg(80)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_HttpEcho_Tokens)->Arg(8192)->Arg(100'000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_HttpSelect_Tokens)->Arg(8192)->Arg(100'000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_ReadBody_Tokens)->Arg(8192)->Arg(100'000);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
