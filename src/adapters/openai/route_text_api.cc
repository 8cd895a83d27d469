#include "adapters/openai/route_text_api.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/http/http_format.h"
#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_explanation.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr std::string_view kPrefix = "/route";

std::string AnswerJson(const RouteTextAnswer& answer) {
  std::string text = R"({"decision":)" + DecisionJson(answer.request_id, answer.decision);
  text += answer.token_ids != nullptr ? R"(,"tokenized":true,"token_ids":[)"
                                      : R"(,"tokenized":false,"token_ids":[)";
  if (answer.token_ids != nullptr)
    fmt::format_to(std::back_inserter(text), "{}", fmt::join(*answer.token_ids, ","));
  text += "]}";
  return text;
}

absl::StatusOr<bool> WantsBooking(const HttpRequest& request) {
  const std::optional<std::string> book = QueryParameter(request.query, "book");
  if (!book || *book == "true") return true;
  if (*book == "false") return false;
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
      fmt::format("book must be true or false, got \"{}\"", std::string_view(*book).substr(0, 64)));
}

}  // namespace

void RouteTextApi::AddRoutes(HttpServer* server) {
  for (const std::string_view path : {"/v1/completions", "/v1/chat/completions"}) {
    routes_.AddAsync(
        server, "POST", std::string(kPrefix) + std::string(path),
        [this, path](const HttpRequest& request, const std::shared_ptr<ApiRoutes::Reply>& reply) {
          if (call_ == nullptr) {
            return reply->Answer(
                ErrorResponse(501, "text is not routed here: needs dispatch or route-text"));
          }
          const absl::StatusOr<bool> book = WantsBooking(request);
          if (!book.ok()) return reply->Answer(book.status());
          std::string body;
          body.reserve(request.body.size() + kBodyPaddingBytes);
          body = request.body;
          const auto cancel = call_({.path = std::string(path),
                                     .headers = request.headers,
                                     .body = std::move(body),
                                     .book = *book,
                                     .request_id = ""},
                                    [reply](absl::StatusOr<RouteTextAnswer> answer) {
                                      if (!answer.ok()) return reply->Answer(answer.status());
                                      reply->Answer(JsonAnswer(200, AnswerJson(*answer)));
                                    });
          reply->OnGone(cancel);
        });
  }
}

}  // namespace kvrouter
