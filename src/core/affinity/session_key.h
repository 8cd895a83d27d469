#ifndef KVROUTER_CORE_AFFINITY_SESSION_KEY_H_
#define KVROUTER_CORE_AFFINITY_SESSION_KEY_H_

#include <cstdint>
#include <string_view>

#include "kvrouter/session.h"

namespace kvrouter {

// Never kNoSession. REQUIRES: !id.empty().
SessionKey KeyOfCallerId(std::string_view id);

// A key made of a 64-bit hash: the one value that means "none" is mapped to another.
inline SessionKey KeyOfHash(uint64_t hash) { return SessionKey{hash == 0 ? 1 : hash}; }

// Spreads the bits of a word: neighbouring inputs give unrelated outputs. A bijection.
constexpr uint64_t MixBits(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  return x;
}

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_SESSION_KEY_H_
