#ifndef KVROUTER_CORE_AFFINITY_LINEAGE_H_
#define KVROUTER_CORE_AFFINITY_LINEAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/affinity/hot_keys.h"
#include "core/affinity/recent_map.h"
#include "core/affinity/session_key.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/types.h"

namespace kvrouter {

// A prompt as far as its session is concerned. Borrowed.
struct PromptBeginning {
  std::span<const SequenceHash> chain;  // of the full blocks
  // Empty: the caller sent hashes, and what lies behind the last full block is unknown.
  std::span<const TokenId> token_ids = {};
  uint64_t isl_tokens = 0;
  BlockNaming naming;
  uint64_t block_seed = 0;  // BlockSeed: LoRA and salt of a prompt that fills no block
  // Items by block, as in TokenPrompt: blocks whose token ids do not say what they hold.
  std::span<const std::vector<MultimodalHash>> multimodal = {};
};

// Derives the session of a request from its prompt, for callers that do not name one.
//
// A prompt of N tokens or more: the first N tokens are the key (with LoRA, salt and images, since
// sequence hashes have them). All turns of a conversation begin alike, so they share it.
//
// A shorter prompt has no such key, and one over what there is would change with every turn. Here
// the *end* of each prompt is recorded: its last block boundary and the tail after it. The next
// turn contains it:
//
//   turn 1   [b0][b1]tail1                     recorded: end (b1, tail1) of session S
//   turn 2   [b0][b1][tail1 more][b3]tail2     b3? b2? no. b1: continues with tail1 -> session S
//                                              recorded: end (b3, tail2) of S
//   turn 3   ... N tokens                      continues tail2 -> S, kept as *alias* of N tokens
//   turn 4   ...                               N tokens have the alias S
//
// Boundaries are tried longest first, and of one boundary the longest tail, so the latest turn
// wins. The tail must be continued token for token: conversations that merely share full blocks (a
// system prompt) are not joined. Two of them are one session only if the whole of an earlier prompt
// of one begins the other, or if they share N tokens; nothing that was sent tells those apart.
//
// Hot keys are not joined: a warm-up prompt of one token would begin every conversation and make
// all of them one session. Who would have joined a hot session starts its own, and keeps that.
//
// Unknown tokens (prompts sent as hashes, tails with images) join nobody: such a prompt has a
// session only where block boundaries alone decide, else none; N is rounded up to whole blocks.
//
// Bounded: the ends and aliases that were least recently used make room, counted. Thread safety:
// thread-compatible.
class Lineage {
 public:
  struct Options {
    uint64_t prefix_tokens = 0;  // N > 0
    uint32_t max_ends = 262'144;
    uint32_t max_aliases = 262'144;
  };

  enum class Source : uint8_t {
    kNone,    // nothing that could tell this conversation apart is known
    kPrefix,  // the first N tokens
    kAlias,   // the first N tokens, for which a key from below N is kept
    kEnd,     // continues an earlier prompt
    kStart,   // begins a session below N
  };

  struct Derived {
    SessionKey key = kNoSession;
    Source source = Source::kNone;
  };

  struct Stats {
    uint64_t ends = 0;
    uint64_t aliases = 0;
    uint64_t ends_evicted_total = 0;
    uint64_t aliases_evicted_total = 0;
    uint64_t ends_refused_total = 0;  // a boundary had kMaxTailLengths others already
  };

  // Tails of different lengths that are kept at one boundary: what a look-up there may cost.
  static constexpr size_t kMaxTailLengths = 1024;

  explicit Lineage(const Options& options);

  // The prompt's session; remembers what the next turn needs. `hot`: whom not to join; may be null.
  Derived Assign(const PromptBeginning& prompt, const HotKeys* hot = nullptr);

  // What Assign would say now; remembers nothing.
  Derived Find(const PromptBeginning& prompt, const HotKeys* hot = nullptr) const;

  Stats GetStats() const;

 private:
  // Names an end exactly: boundary, length of the tail, the tail.
  enum class EndId : uint64_t {};

  struct TailLength {
    uint32_t tokens = 0;
    uint32_t ends = 0;  // recorded with it; > 0
  };
  using TailLengths = absl::InlinedVector<TailLength, 2>;  // ascending tokens

  struct End {
    SessionKey session = kNoSession;
    SequenceHash boundary{};
    uint32_t tail_tokens = 0;
  };

  // The end of a prompt that is as long as its known tokens.
  struct Place {
    SequenceHash boundary{};
    uint32_t tail_tokens = 0;
    EndId id{};
  };

  struct Match {
    EndId id{};
    SessionKey session = kNoSession;
  };

  struct Finding {
    Derived derived;
    std::optional<SessionKey> prefix;  // the key of the first N tokens
    std::optional<EndId> continued;    // the end that the prompt continues
  };

  // The key of the first N tokens, if the prompt has and tells them.
  std::optional<SessionKey> PrefixKey(const PromptBeginning& prompt) const;
  Finding Look(const PromptBeginning& prompt, const HotKeys* hot) const;
  std::optional<Match> FindEnd(const PromptBeginning& prompt) const;
  std::optional<Match> FindEndAt(const PromptBeginning& prompt, uint64_t block) const;
  std::optional<Place> EndOf(const PromptBeginning& prompt) const;
  void Record(const Place& place, SessionKey session);
  void Forget(const End& end);

  const Options options_;
  absl::flat_hash_map<SequenceHash, TailLengths> boundaries_;
  RecentMap<EndId, End> ends_;
  RecentMap<SessionKey, SessionKey> aliases_;  // by N-token key
  uint64_t ends_refused_total_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_LINEAGE_H_
