#include "adapters/http/selection_api.h"

#include <string>
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

std::span<const SelectionApi::RouteEntry> SelectionApi::Routes() {
  static constexpr RouteEntry kRoutes[] = {
      {"POST", "/workers", &SelectionApi::PostWorker},
      {"GET", "/workers", &SelectionApi::GetWorkers},
      {"PATCH", "/workers/{}", &SelectionApi::PatchWorker},
      {"DELETE", "/workers/{}", &SelectionApi::DeleteWorker},
      {"POST", "/select", &SelectionApi::Select},
      {"POST", "/select_and_reserve", &SelectionApi::SelectAndReserve},
      {"POST", "/reservations", &SelectionApi::PostReservation},
      {"POST", "/reservations/{}/prefill_complete", &SelectionApi::PrefillComplete},
      {"POST", "/reservations/{}/output_block", &SelectionApi::OutputBlock},
      {"DELETE", "/reservations/{}", &SelectionApi::DeleteReservation},
      {"GET", "/loads", &SelectionApi::GetLoads},
      {"POST", "/potential_loads", &SelectionApi::PotentialLoads},
      {"POST", "/overlap_scores", &SelectionApi::OverlapScores},
      {"GET", "/dump", &SelectionApi::Dump},
      {"GET", "/explain/{}", &SelectionApi::Explain},
      {"GET", "/health", &SelectionApi::Health},
      {"GET", "/ready", &SelectionApi::Ready},
  };
  return kRoutes;
}

void SelectionApi::AddRoutes(HttpServer* server) {
  for (size_t i = 0; i < Routes().size(); ++i) {
    const RouteEntry& route = Routes()[i];
    server->Route(
        std::string(route.method), std::string(route.path),
        [this, call = route.call, i](const HttpRequest& request) {
          HttpResponse answer = AnswerOrError((this->*call)(request));
          const size_t status_class = answer.status < 400 ? 0 : answer.status < 500 ? 1 : 2;
          answers_[i][status_class].fetch_add(1, std::memory_order_relaxed);
          return answer;
        });
  }
}

// Bodies say no more than a status code; the reason gRPC gives for the same is this one.
absl::Status SelectionApi::WithReason(const absl::Status& status) {
  if (status.ok() || ErrorReasonOf(status) != ErrorReason::kUnspecified) return status;
  return MakeError(status.code(), ErrorReason::kInvalidRequest, "");
}

std::vector<SelectionApi::RouteAnswers> SelectionApi::Answers() const {
  std::vector<RouteAnswers> answers;
  for (size_t i = 0; i < answers_.size(); ++i) {
    answers.push_back({.method = Routes()[i].method,
                       .route = Routes()[i].path,
                       .counts = {answers_[i][0].load(std::memory_order_relaxed),
                                  answers_[i][1].load(std::memory_order_relaxed),
                                  answers_[i][2].load(std::memory_order_relaxed)}});
  }
  return answers;
}

}  // namespace kvrouter
