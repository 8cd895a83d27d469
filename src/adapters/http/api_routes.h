#ifndef KVROUTER_ADAPTERS_HTTP_API_ROUTES_H_
#define KVROUTER_ADAPTERS_HTTP_API_ROUTES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// Bodies say no more than a status code; the reason gRPC gives for the same is kInvalidRequest.
absl::Status WithReason(const absl::Status& status);

// Counts the refusal of what never reaches `service`, which counts its own answers.
template <typename Service>
absl::Status Counted(Service* service, absl::Status status) {
  service->CountRefusal(WithReason(status));
  return status;
}
template <typename Service, typename T>
absl::StatusOr<T> Counted(Service* service, absl::StatusOr<T> read) {
  service->CountRefusal(WithReason(read.status()));
  return read;
}

// The routes of one API: errors become {"error":text}, and the answers of each route are counted by
// class of status. Thread safety: Add before the server starts; then thread-safe.
class ApiRoutes {
 public:
  using Call = std::function<absl::StatusOr<HttpResponse>(const HttpRequest&)>;

  void Add(HttpServer* server, std::string_view method, std::string_view path, Call call);

  // A request whose answer may come later, from any thread; shared by those who may give it.
  class Reply {
   public:
    virtual ~Reply() = default;
    // Once.
    virtual void Answer(absl::StatusOr<HttpResponse> answer) = 0;
    // As HttpResponder.
    virtual bool Cancelled() const = 0;
    virtual void OnGone(std::function<void()> gone) = 0;
  };
  using AsyncCall = std::function<void(const HttpRequest&, std::shared_ptr<Reply>)>;

  void AddAsync(HttpServer* server, std::string_view method, std::string_view path, AsyncCall call);

  // Answers of one route so far.
  struct RouteAnswers {
    std::string method;
    std::string route;               // the pattern, e.g. "/workers/{}"
    std::array<uint64_t, 3> counts;  // 2xx, 4xx, 5xx
  };
  std::vector<RouteAnswers> Answers() const;

 private:
  struct Entry {
    std::string method;
    std::string path;
    Call call;
    AsyncCall async_call;
    std::array<std::atomic<uint64_t>, 3> counts{};
  };
  class EntryReply;
  static void Count(Entry* entry, int status);

  std::deque<Entry> entries_;  // whose addresses the handlers keep
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_API_ROUTES_H_
