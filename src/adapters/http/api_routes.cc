#include "adapters/http/api_routes.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/http/http_format.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

int StatusOfExhausted(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kTooLarge:
      return 413;
    case ErrorReason::kAllOverloaded:
    case ErrorReason::kPinnedOverloaded:
      return 429;
    default:  // queue and bounds of ours
      return 503;
  }
}

// For an error of bodies or service.
int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kOutOfRange:  // only bodies say so
      return 422;
    case absl::StatusCode::kUnimplemented:  // only CheckJsonContent says so
      return 415;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kCancelled:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return StatusOfExhausted(ErrorReasonOf(status));
    case absl::StatusCode::kDeadlineExceeded:  // in the queue
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HttpResponse AnswerOrError(absl::StatusOr<HttpResponse> answer) {
  if (answer.ok()) return *std::move(answer);
  const absl::Status& error = answer.status();
  HttpResponse response =
      ErrorResponse(HttpStatusOf(error), {error.message().data(), error.message().size()});
  if (const auto limit = QueueRejectionOf(error)) {
    response.body.pop_back();  // both names are words that need no escaping
    response.body += fmt::format(
        R"(,"details":{{"policy_class":"{}","limit_kind":"{}","current":{},"limit":{}}}}})",
        limit->policy_class, limit->limit_kind, limit->current, limit->limit);
  }
  return response;
}

}  // namespace

absl::Status WithReason(const absl::Status& status) {
  if (status.ok() || ErrorReasonOf(status) != ErrorReason::kUnspecified) return status;
  return MakeError(status.code(), ErrorReason::kInvalidRequest, "");
}

void ApiRoutes::Add(HttpServer* server, std::string_view method, std::string_view path, Call call) {
  Entry& entry = entries_.emplace_back();
  entry.method = std::string(method);
  entry.path = std::string(path);
  entry.call = std::move(call);
  server->Route(entry.method, entry.path, [&entry](const HttpRequest& request) {
    HttpResponse answer = AnswerOrError(entry.call(request));
    Count(&entry, answer.status);
    return answer;
  });
}

void ApiRoutes::Count(Entry* entry, int status) {
  const size_t status_class = status < 400 ? 0 : status < 500 ? 1 : 2;
  entry->counts[status_class].fetch_add(1, std::memory_order_relaxed);
}

class ApiRoutes::EntryReply final : public Reply {
 public:
  EntryReply(Entry* entry, std::shared_ptr<HttpResponder> responder)
      : entry_(entry), responder_(std::move(responder)) {}

  void Answer(absl::StatusOr<HttpResponse> answer) override {
    HttpResponse response = AnswerOrError(std::move(answer));
    Count(entry_, response.status);
    responder_->Complete(std::move(response));
  }
  bool Cancelled() const override { return responder_->Cancelled(); }
  void OnGone(std::function<void()> gone) override { responder_->OnGone(std::move(gone)); }

 private:
  Entry* const entry_;
  const std::shared_ptr<HttpResponder> responder_;
};

void ApiRoutes::AddAsync(HttpServer* server, std::string_view method, std::string_view path,
                         AsyncCall call) {
  Entry& entry = entries_.emplace_back();
  entry.method = std::string(method);
  entry.path = std::string(path);
  entry.async_call = std::move(call);
  server->RouteAsync(
      entry.method, entry.path,
      [&entry](const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
        entry.async_call(request, std::make_shared<EntryReply>(&entry, std::move(responder)));
      });
}

std::vector<ApiRoutes::RouteAnswers> ApiRoutes::Answers() const {
  std::vector<RouteAnswers> answers;
  for (const Entry& entry : entries_) {
    answers.push_back({.method = entry.method,
                       .route = entry.path,
                       .counts = {entry.counts[0].load(std::memory_order_relaxed),
                                  entry.counts[1].load(std::memory_order_relaxed),
                                  entry.counts[2].load(std::memory_order_relaxed)}});
  }
  return answers;
}

}  // namespace kvrouter
