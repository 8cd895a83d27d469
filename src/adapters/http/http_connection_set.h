#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_SET_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_SET_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace kvrouter {

class HttpConnection;

// The connections of a server and the bound on their number.
//
// A connection waits until its next request's head is there: idle, new, or sending its head byte by
// byte. Waiting ones are expendable: when the bound is reached one is told to go, so that a crowd
// of clients that keep connections and ask nothing cannot lock others out. Of those that never
// asked and those that did, it is the longest waiting of the more numerous: a crowd in its
// handshakes makes room for itself and leaves kept connections alone, unless they are many more.
// Only when all are busy is a new client refused.
//
// Thread safety: thread-safe, one mutex, never held across a call of a connection.
class HttpConnectionSet {
 public:
  explicit HttpConnectionSet(uint32_t max_connections) : max_connections_(max_connections) {}

  struct Admission {
    bool admitted = false;
    // To be told to go (HttpConnection::Evict); null if there was room.
    std::shared_ptr<HttpConnection> evicted;
  };
  // An admitted connection is a waiting one.
  Admission Admit(std::shared_ptr<HttpConnection> connection);
  // For want of something else than places, e.g. of file descriptors. Null if none waits.
  std::shared_ptr<HttpConnection> TakeLongestWaiting();
  void Remove(const HttpConnection* connection);

  void SetWaiting(const HttpConnection* connection);
  void SetBusy(const HttpConnection* connection);

  std::vector<std::shared_ptr<HttpConnection>> All() const;
  size_t Size() const;
  // Returns when there is none, or at the deadline.
  void WaitUntilEmpty(std::chrono::steady_clock::time_point deadline);

 private:
  using Line = std::list<const HttpConnection*>;
  struct Entry {
    std::shared_ptr<HttpConnection> connection;
    bool asked = false;                   // the head of a request came, once at least
    std::optional<Line::iterator> place;  // in the line of its kind
    bool leaving = false;                 // was told to go
  };

  Line& LineOf(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return entry.asked ? kept_ : new_;
  }
  std::shared_ptr<HttpConnection> TakeLongestWaitingLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_connections_;
  mutable Mutex mu_;
  CondVar none_left_;
  std::unordered_map<const HttpConnection*, Entry> entries_ ABSL_GUARDED_BY(mu_);
  // That wait, longest first.
  Line new_ ABSL_GUARDED_BY(mu_);   // never asked
  Line kept_ ABSL_GUARDED_BY(mu_);  // did
  size_t leaving_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_SET_H_
