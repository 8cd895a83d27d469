#ifndef KVROUTER_CORE_AFFINITY_SESSION_IDENTITY_H_
#define KVROUTER_CORE_AFFINITY_SESSION_IDENTITY_H_

#include <cstdint>
#include <string_view>

#include "core/affinity/hot_keys.h"
#include "core/affinity/lineage.h"
#include "core/affinity/session_key.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Which session a request belongs to and whether it may be pinned: the caller's id if it gave one,
// else what the prompt says, if deriving is on (prefix_tokens > 0). Only derived keys can be hot:
// what a caller names is a session because the caller says so.
//
// One per partition. Thread safety: thread-compatible.
class SessionIdentifier {
 public:
  struct Options {
    uint64_t prefix_tokens = 0;  // N; 0: only callers name sessions
    uint32_t max_ends = 262'144;
    uint32_t max_aliases = 262'144;
    HotKeys::Options hot_keys = {};
  };

  using Source = SessionSource;

  struct Identity {
    SessionKey key = kNoSession;
    Source source = Source::kNone;
    bool hot = false;  // the key is not to be pinned

    bool Pins() const { return key != kNoSession && !hot; }
  };

  explicit SessionIdentifier(const Options& options);

  // A request that will be booked. `caller_id` as CallerSessionId gives it; empty: none.
  Identity Identify(std::string_view caller_id, const PromptBeginning& prompt, uint64_t targets,
                    MonotonicTime now);

  // What Identify would say; remembers nothing.
  Identity Peek(std::string_view caller_id, const PromptBeginning& prompt) const;

  Lineage::Stats LineageStats() const { return lineage_.GetStats(); }
  const HotKeys& hot_keys() const { return hot_keys_; }

 private:
  bool derives() const { return options_.prefix_tokens > 0; }

  const Options options_;
  Lineage lineage_;
  HotKeys hot_keys_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_SESSION_IDENTITY_H_
