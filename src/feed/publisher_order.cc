#include "feed/publisher_order.h"

#include <algorithm>

namespace kvrouter {
namespace {

bool Contains(const std::vector<uint64_t>& publishers, uint64_t publisher) {
  return std::find(publishers.begin(), publishers.end(), publisher) != publishers.end();
}

bool InOrder(const std::vector<uint64_t>& publishers, uint64_t older, uint64_t younger) {
  const auto at = std::find(publishers.begin(), publishers.end(), older);
  return at != publishers.end() && std::find(at + 1, publishers.end(), younger) != publishers.end();
}

}  // namespace

void PublisherOrder::Hear(uint32_t path, uint64_t publisher) {
  const auto known_path = heard_.find(path);
  if (known_path != heard_.end() && Contains(known_path->second, publisher)) return;
  if (!Contains(publishers_, publisher)) {
    publishers_.push_back(publisher);
    if (publishers_.size() > kMaxPublishers) {
      for (auto& [other, heard] : heard_) std::erase(heard, publishers_.front());
      publishers_.erase(publishers_.begin());
    }
  } else if (known_path != heard_.end()) {
    // Younger than all that this path brought before, unless another path has shown the contrary.
    auto behind = std::find(publishers_.begin(), publishers_.end(), publisher);
    for (const uint64_t before : known_path->second) {
      if (AnyPathShows(publisher, before)) continue;
      const auto at = std::find(publishers_.begin(), publishers_.end(), before);
      if (at > behind) behind = std::rotate(behind, behind + 1, at + 1);
    }
  }
  if (known_path != heard_.end()) {
    known_path->second.push_back(publisher);
  } else if (heard_.size() < kMaxPaths) {
    heard_[path] = {publisher};
  }
}

bool PublisherOrder::IsOlder(uint64_t publisher, uint64_t than) const {
  return InOrder(publishers_, publisher, than);
}

bool PublisherOrder::AnyPathShows(uint64_t older, uint64_t younger) const {
  return std::any_of(heard_.begin(), heard_.end(),
                     [&](const auto& path) { return InOrder(path.second, older, younger); });
}

}  // namespace kvrouter
