#include "adapters/http/http_message.h"

#include <fmt/format.h>

#include <boost/beast/http/error.hpp>
#include <exception>
#include <string>
#include <utility>

#include "adapters/http/http_format.h"

namespace kvrouter {
namespace {

namespace http = boost::beast::http;

HttpResponse MethodNotAllowed(const HttpRoutes::Methods& methods) {
  HttpResponse answer = ErrorResponse(405, "method not allowed");
  std::string allowed;
  for (const auto& [method, unused] : methods) {
    allowed +=
        fmt::format("{}{}{}", allowed.empty() ? "" : ", ", method, method == "GET" ? ", HEAD" : "");
  }
  answer.headers.emplace_back("Allow", std::move(allowed));
  return answer;
}

}  // namespace

HttpRequest ToHttpRequest(http::request<http::string_body>* message) {
  HttpRequest request;
  request.method = std::string(message->method_string());
  RequestTarget target = SplitTarget({message->target().data(), message->target().size()});
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  for (const auto& field : *message) {
    std::string name(field.name_string());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message->body());
  return request;
}

void CallHandler(const HttpRoutes& routes, HttpRequest* request,
                 const std::shared_ptr<HttpResponder>& responder) {
  const HttpRoutes::Methods* methods = routes.Find(request->path, &request->path_parameters);
  if (methods == nullptr) return responder->Complete(ErrorResponse(404, "route not found"));
  const auto handler = methods->find(request->method == "HEAD" ? "GET" : request->method);
  if (handler == methods->end()) return responder->Complete(MethodNotAllowed(*methods));
  try {
    handler->second(*request, responder);
  } catch (const std::exception& e) {  // of a library below the handler
    responder->Complete(ErrorResponse(500, e.what()));
  }
}

std::optional<HttpResponse> AnswerToReadError(const boost::system::error_code& error,
                                              const HttpServerConfig& config) {
  if (error == http::error::body_limit)
    return ErrorResponse(413, fmt::format("body over {} bytes", config.max_body_bytes));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return ErrorResponse(431, fmt::format("headers over {} bytes", config.max_header_bytes));
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message)
    return ErrorResponse(400, fmt::format("malformed request: {}", error.message()));
  return std::nullopt;
}

}  // namespace kvrouter
