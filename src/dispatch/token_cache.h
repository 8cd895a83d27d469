#ifndef KVROUTER_DISPATCH_TOKEN_CACHE_H_
#define KVROUTER_DISPATCH_TOKEN_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "kvrouter/types.h"

namespace kvrouter {

using TokenIds = std::shared_ptr<const std::vector<TokenId>>;

// Token ids of texts that were tokenised lately. Texts are compared, not hashes of them: a caller
// that could choose a collision would have another one's prompt answered.
//
// Thread safety: thread-safe. Bound: bytes of texts and ids; the longest unused goes first.
class TokenCache {
 public:
  explicit TokenCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if it is not there.
  TokenIds Find(std::string_view text);
  // One that alone is over the bound is not kept.
  void Insert(std::string text, TokenIds ids);

  struct Figures {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t evicted_total = 0;
  };
  Figures Read() const;

 private:
  struct Entry {
    std::string text;
    TokenIds ids;
  };
  struct TextHash {
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  static uint64_t BytesOf(const Entry& entry);
  void EraseOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_bytes_;
  mutable Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // lately used first
  // Keys lie in the entries.
  absl::flat_hash_map<std::string_view, std::list<Entry>::iterator, TextHash> by_text_
      ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t evicted_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_TOKEN_CACHE_H_
