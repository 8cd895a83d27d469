#include "adapters/http/http_routes.h"

#include <algorithm>

#include "adapters/http/http_format.h"

namespace kvrouter {
namespace {

// The text before the next '/', which is taken off `rest`.
std::string_view TakeSegment(std::string_view* rest) {
  const size_t slash = rest->find('/');
  const std::string_view segment = rest->substr(0, slash);
  *rest = slash == std::string_view::npos ? std::string_view() : rest->substr(slash + 1);
  return segment;
}

bool Matches(std::string_view pattern, std::string_view path,
             std::vector<std::string>* parameters) {
  // As many segments, or no match; then the loop need not watch both ends.
  if (std::count(pattern.begin(), pattern.end(), '/') != std::count(path.begin(), path.end(), '/'))
    return false;
  parameters->clear();
  while (!pattern.empty() || !path.empty()) {
    const std::string_view wanted = TakeSegment(&pattern);
    const std::string_view segment = TakeSegment(&path);
    if (wanted == "{}" && !segment.empty()) {
      parameters->push_back(PercentDecode(segment));
    } else if (wanted != segment) {
      return false;
    }
  }
  return true;
}

}  // namespace

void HttpRoutes::Add(const std::string& path, std::string method, HttpServer::Handler handler) {
  if (path.find("{}") == std::string::npos) {
    exact_[path][std::move(method)] = std::move(handler);
    return;
  }
  auto known = std::find_if(patterns_.begin(), patterns_.end(),
                            [&](const auto& pattern) { return pattern.first == path; });
  if (known == patterns_.end()) known = patterns_.insert(patterns_.end(), {path, {}});
  known->second[std::move(method)] = std::move(handler);
}

const HttpRoutes::Methods* HttpRoutes::Find(const std::string& path,
                                            std::vector<std::string>* parameters) const {
  const auto exact = exact_.find(path);
  if (exact != exact_.end()) return &exact->second;
  for (const auto& [pattern, methods] : patterns_) {
    if (Matches(pattern, path, parameters)) return &methods;
  }
  return nullptr;
}

}  // namespace kvrouter
