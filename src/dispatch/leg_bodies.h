#ifndef KVROUTER_DISPATCH_LEG_BODIES_H_
#define KVROUTER_DISPATCH_LEG_BODIES_H_

#include <span>
#include <string>
#include <string_view>

#include "dispatch/body_edit.h"
#include "kvrouter/types.h"

namespace kvrouter {

// The bodies of a plan's legs, made from the client's. Pure.

// What every leg of the request has in common with the others but not with the client's body.
struct SharedEdits {
  std::span<const TokenId> prompt_ids = {};  // in place of the prompt's text; empty: as it is
  std::string_view cache_salt = {};          // of a header, if the body has none; empty: none
  bool ask_usage = false;                    // of a stream whose client did not
};
// The edits alone; an empty result means that the client's bytes serve.
BodyEdit EditsOf(const SharedEdits& shared);

// One token, not streamed, blocks kept for another worker: what vLLM's connector takes for the part
// of the producer. Parity: vLLM's toy_proxy_server; n and best_of, too, since every further
// sequence would pin blocks that nobody pulls.
std::string ProducerBody(const JsonObject& body, const SharedEdits& shared);

// With the producer's handshake, byte for byte as it came: engines of other versions put fields
// into it that we do not know, and need them back.
std::string ConsumerBody(const JsonObject& body, const SharedEdits& shared,
                         std::string_view handshake);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_LEG_BODIES_H_
