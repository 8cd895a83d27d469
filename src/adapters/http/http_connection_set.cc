#include "adapters/http/http_connection_set.h"

#include <utility>

namespace kvrouter {
namespace {

// Connections that were told to go and have not gone yet: what the number of open ones may exceed
// its bound by.
constexpr size_t kMaxLeaving = 64;

}  // namespace

HttpConnectionSet::Admission HttpConnectionSet::Admit(std::shared_ptr<HttpConnection> connection) {
  MutexLock lock(mu_);
  Admission admission;
  if (entries_.size() - leaving_ >= max_connections_) {
    admission.evicted = TakeLongestWaitingLocked();
    if (admission.evicted == nullptr) return admission;
  }
  const HttpConnection* key = connection.get();
  entries_[key] = {.connection = std::move(connection), .place = new_.insert(new_.end(), key)};
  admission.admitted = true;
  return admission;
}

std::shared_ptr<HttpConnection> HttpConnectionSet::TakeLongestWaiting() {
  MutexLock lock(mu_);
  return TakeLongestWaitingLocked();
}

std::shared_ptr<HttpConnection> HttpConnectionSet::TakeLongestWaitingLocked() {
  Line& line = new_.size() >= kept_.size() ? new_ : kept_;
  if (line.empty() || leaving_ >= kMaxLeaving) return nullptr;
  Entry& longest = entries_[line.front()];
  line.pop_front();
  longest.place.reset();
  longest.leaving = true;
  ++leaving_;
  return longest.connection;
}

void HttpConnectionSet::Remove(const HttpConnection* connection) {
  std::shared_ptr<HttpConnection> last;  // released after the lock
  MutexLock lock(mu_);
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return;
  if (found->second.place) LineOf(found->second).erase(*found->second.place);
  if (found->second.leaving) --leaving_;
  last = std::move(found->second.connection);
  entries_.erase(found);
  if (entries_.empty()) none_left_.NotifyAll();
}

void HttpConnectionSet::SetWaiting(const HttpConnection* connection) {
  MutexLock lock(mu_);
  const auto found = entries_.find(connection);
  if (found == entries_.end() || found->second.place || found->second.leaving) return;
  Line& line = LineOf(found->second);
  found->second.place = line.insert(line.end(), connection);
}

void HttpConnectionSet::SetBusy(const HttpConnection* connection) {
  MutexLock lock(mu_);
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return;
  if (found->second.place) LineOf(found->second).erase(*found->second.place);
  found->second.place.reset();
  found->second.asked = true;
}

std::vector<std::shared_ptr<HttpConnection>> HttpConnectionSet::All() const {
  MutexLock lock(mu_);
  std::vector<std::shared_ptr<HttpConnection>> all;
  all.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) all.push_back(entry.connection);
  return all;
}

size_t HttpConnectionSet::Size() const {
  MutexLock lock(mu_);
  return entries_.size();
}

void HttpConnectionSet::WaitUntilEmpty(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  while (!entries_.empty()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return;
    none_left_.WaitFor(mu_, left);
  }
}

}  // namespace kvrouter
