#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <optional>

#include "adapters/http/http_routes.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// Between the parser's messages and the handlers. Pure but for the handler that is called.

// Takes the body out of `message`.
HttpRequest ToHttpRequest(boost::beast::http::request<boost::beast::http::string_body>* message);

// Calls the route's handler, or answers 404, 405 and, for what a handler throws, 500. Fills
// `request->path_parameters`.
void CallHandler(const HttpRoutes& routes, HttpRequest* request,
                 const std::shared_ptr<HttpResponder>& responder);

// What a client is told whose request could not be read; nullopt if it has left.
std::optional<HttpResponse> AnswerToReadError(const boost::system::error_code& error,
                                              const HttpServerConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_MESSAGE_H_
