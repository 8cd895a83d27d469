#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <optional>
#include <string>

#include "adapters/http/http_routes.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// Between the parser's messages and the handlers. Pure but for the handler that is called.

using HttpMessage = boost::beast::http::request<boost::beast::http::string_body>;

// Why a message whose head could be read is refused all the same: what proxies in front of us might
// read differently (which bytes are the body, which host is meant), and too many fields. nullopt if
// it is fine.
std::optional<HttpResponse> RefusalOfHead(const HttpMessage& message,
                                          const HttpServerConfig& config);

HttpRequest ToHttpRequest(const HttpMessage& message, std::string body);

// Calls the route's handler, or answers 404, 405 and, for what a handler throws, 500. Fills
// `request->path_parameters`. False: there is no handler.
bool CallHandler(const HttpServerConfig& config, const HttpRoutes& routes, HttpRequest* request,
                 const std::shared_ptr<HttpResponder>& responder);

// What a client is told whose request could not be read; nullopt if it has left.
std::optional<HttpResponse> AnswerToReadError(const boost::system::error_code& error,
                                              const HttpServerConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_
