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

absl::Status CheckJsonContent(const HttpRequest& request) {
  std::string type(request.Header("content-type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (type == "application/json" || (type.starts_with("application/") && type.ends_with("+json")))
    return absl::OkStatus();
  return absl::UnimplementedError("expected a request with Content-Type: application/json");
}

void SelectionApi::Add(HttpServer* server, std::string method, std::string path, Call call) {
  server->Route(std::move(method), std::move(path), [this, call](const HttpRequest& request) {
    Answer answer = (this->*call)(request);
    if (answer.ok()) return *std::move(answer);
    const absl::Status& error = answer.status();
    return ErrorResponse(HttpStatusOf(error), {error.message().data(), error.message().size()});
  });
}

void SelectionApi::AddRoutes(HttpServer* server) {
  Add(server, "POST", "/workers", &SelectionApi::PostWorker);
  Add(server, "GET", "/workers", &SelectionApi::GetWorkers);
  Add(server, "PATCH", "/workers/{}", &SelectionApi::PatchWorker);
  Add(server, "DELETE", "/workers/{}", &SelectionApi::DeleteWorker);
  Add(server, "POST", "/select", &SelectionApi::Select);
  Add(server, "POST", "/select_and_reserve", &SelectionApi::SelectAndReserve);
  Add(server, "POST", "/reservations", &SelectionApi::PostReservation);
  Add(server, "POST", "/reservations/{}/prefill_complete", &SelectionApi::PrefillComplete);
  Add(server, "POST", "/reservations/{}/output_block", &SelectionApi::OutputBlock);
  Add(server, "DELETE", "/reservations/{}", &SelectionApi::DeleteReservation);
  Add(server, "GET", "/loads", &SelectionApi::GetLoads);
  Add(server, "POST", "/potential_loads", &SelectionApi::PotentialLoads);
  Add(server, "POST", "/overlap_scores", &SelectionApi::OverlapScores);
  Add(server, "GET", "/dump", &SelectionApi::Dump);
  Add(server, "GET", "/health", &SelectionApi::Health);
  Add(server, "GET", "/ready", &SelectionApi::Ready);
}

}  // namespace kvrouter
