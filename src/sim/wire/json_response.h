#ifndef KVROUTER_SIM_WIRE_JSON_RESPONSE_H_
#define KVROUTER_SIM_WIRE_JSON_RESPONSE_H_

#include <string>
#include <utility>

#include "adapters/http/http_server.h"

namespace kvrouter::sim {

inline HttpResponse JsonResponse(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_JSON_RESPONSE_H_
