#include "adapters/http/api_routes.h"

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

HttpResponse AnswerOrError(absl::StatusOr<HttpResponse> answer) {
  if (answer.ok()) return *std::move(answer);
  const absl::Status& error = answer.status();
  return ErrorResponse(HttpStatusOf(error), {error.message().data(), error.message().size()});
}

}  // namespace

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
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

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
    const size_t status_class = answer.status < 400 ? 0 : answer.status < 500 ? 1 : 2;
    entry.counts[status_class].fetch_add(1, std::memory_order_relaxed);
    return answer;
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
