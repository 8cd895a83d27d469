#ifndef KVROUTER_BASE_LAST_CHUNK_H_
#define KVROUTER_BASE_LAST_CHUNK_H_

#include <cstddef>
#include <string_view>

namespace kvrouter {

// Whether these bytes, where Beast's parser stands between chunks, may be the beginning of a last
// chunk ("0", CRLF, CRLF) of which more has to come before the parser is called with them. Once it
// has read such a chunk's size, Beast 1.74 asserts that it is called with all five bytes, though
// the peer decides how many have come by then.
inline bool MayBeCutLastChunk(std::string_view bytes) {
  constexpr size_t kLastChunkBytes = 5;
  return bytes.size() < kLastChunkBytes && bytes.substr(0, 1) == "0";
}

}  // namespace kvrouter

#endif  // KVROUTER_BASE_LAST_CHUNK_H_
