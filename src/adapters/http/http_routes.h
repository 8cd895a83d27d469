#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_ROUTES_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_ROUTES_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/http/http_server.h"

namespace kvrouter {

// From paths to handlers. A path is looked up whole first, then as a pattern: "{}" as a segment
// matches any non-empty segment. Thread-compatible; not changed once the server runs.
class HttpRoutes {
 public:
  using Methods = std::map<std::string, HttpServer::Handler>;

  void Add(const std::string& path, std::string method, HttpServer::Handler handler);

  // Null if no route has this path. Fills `parameters` with the decoded segments a pattern matched.
  const Methods* Find(const std::string& path, std::vector<std::string>* parameters) const;

 private:
  std::map<std::string, Methods> exact_;
  std::vector<std::pair<std::string, Methods>> patterns_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_ROUTES_H_
