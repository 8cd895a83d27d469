#include "adapters/http/http_message.h"

#include <fmt/format.h>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "adapters/http/http_format.h"
#include "base/ascii.h"

namespace kvrouter {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

HttpResponse MethodNotAllowed(const HttpServerConfig& config, const HttpRoutes::Methods& methods) {
  HttpResponse answer = Refusal(config, 405, "method not allowed");
  std::string allowed;
  for (const auto& [method, unused] : methods) {
    allowed +=
        fmt::format("{}{}{}", allowed.empty() ? "" : ", ", method, method == "GET" ? ", HEAD" : "");
  }
  answer.headers.emplace_back("Allow", std::move(allowed));
  return answer;
}

size_t CountFields(const HttpMessage& message, http::field name) {
  const auto [first, last] = message.equal_range(name);
  return static_cast<size_t>(std::distance(first, last));
}

}  // namespace

std::optional<HttpResponse> RefusalOfHead(const HttpMessage& message,
                                          const HttpServerConfig& config) {
  const auto fields = static_cast<size_t>(std::distance(message.begin(), message.end()));
  if (fields > config.max_header_fields)
    return Refusal(config, 431,
                   fmt::format("{} header fields, limit {}", fields, config.max_header_fields));
  const size_t hosts = CountFields(message, http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11))
    return Refusal(config, 400, fmt::format("malformed request: {} Host fields", hosts));
  const size_t lengths = CountFields(message, http::field::content_length);
  if (lengths > 1 || message[http::field::content_length].find(',') != std::string_view::npos)
    return Refusal(config, 400, "malformed request: Content-Length says it more than once");
  if (CountFields(message, http::field::transfer_encoding) == 0) return std::nullopt;
  if (message.version() < 11 || lengths > 0)
    return Refusal(config, 400,
                   "malformed request: Transfer-Encoding in HTTP/1.0 or beside a length");
  if (!beast::iequals(message[http::field::transfer_encoding], "chunked"))
    return Refusal(config, 501, "Transfer-Encoding must be chunked");
  return std::nullopt;
}

HttpRequest ToHttpRequest(const HttpMessage& message, std::string body) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  RequestTarget target = SplitTarget({message.target().data(), message.target().size()});
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  for (const auto& field : message) {
    const auto name = field.name_string();
    request.headers.emplace_back(AsciiLower({name.data(), name.size()}),
                                 std::string(field.value()));
  }
  request.body = std::move(body);
  return request;
}

bool CallHandler(const HttpServerConfig& config, const HttpRoutes& routes, HttpRequest* request,
                 const std::shared_ptr<HttpResponder>& responder) {
  const HttpRoutes::Methods* methods = routes.Find(request->path, &request->path_parameters);
  if (methods == nullptr) {
    responder->Complete(Refusal(config, 404, "route not found"));
    return false;
  }
  const auto handler = methods->find(request->method == "HEAD" ? "GET" : request->method);
  if (handler == methods->end()) {
    responder->Complete(MethodNotAllowed(config, *methods));
    return false;
  }
  try {
    handler->second(*request, responder);
  } catch (const std::exception& e) {  // of a library below the handler
    responder->Complete(Refusal(config, 500, e.what()));
  }
  return true;
}

std::optional<HttpResponse> AnswerToReadError(const boost::system::error_code& error,
                                              const HttpServerConfig& config) {
  if (error == http::error::body_limit)
    return Refusal(config, 413, fmt::format("body over {} bytes", config.max_body_bytes));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return Refusal(config, 431, fmt::format("headers over {} bytes", config.max_header_bytes));
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message)
    return Refusal(config, 400, fmt::format("malformed request: {}", error.message()));
  return std::nullopt;
}

}  // namespace kvrouter
