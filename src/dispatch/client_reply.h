#ifndef KVROUTER_DISPATCH_CLIENT_REPLY_H_
#define KVROUTER_DISPATCH_CLIENT_REPLY_H_

#include <functional>
#include <string>
#include <string_view>

#include "dispatch/engine_link.h"

namespace kvrouter {

// The client's end of a dispatched request: its door implements it (adapters/openai, on the HTTP
// server), tests record what it is told.
//
// Either Complete once, or Begin, Write*, then End or Cut. Callable from any thread, one call at a
// time; never blocks. After the client left all calls do nothing.
class ClientReply {
 public:
  virtual ~ClientReply() = default;
  virtual void Complete(int status, HeaderList headers, std::string body) = 0;
  // Length unknown: the body follows in pieces.
  virtual void Begin(int status, HeaderList headers) = 0;
  // False: the client does not keep up, the caller should pause its source; `drained` given to
  // OnDrained runs when there is room again, perhaps before this has returned. The piece is taken
  // either way.
  virtual bool Write(std::string_view piece) = 0;
  virtual void End() = 0;
  // Ends the answer so that the client sees it is not whole.
  virtual void Cut() = 0;
  // Both set before the first Write; each replaces an earlier one; run on any thread, under no
  // lock. `gone` runs once, perhaps at once, if the client leaves before the answer was sent whole.
  virtual void OnGone(std::function<void()> gone) = 0;
  virtual void OnDrained(std::function<void()> drained) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_CLIENT_REPLY_H_
