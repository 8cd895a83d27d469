#include "core/affinity/lineage.h"

#include <algorithm>
#include <string_view>

namespace kvrouter {
namespace {

// Apart from each other and from the seeds of block hashes.
constexpr uint64_t kPrefixSeed = 0x5e55'1000'0000'0002;
constexpr uint64_t kStartSeed = 0x5e55'1000'0000'0003;
constexpr uint64_t kRootSeed = 0x5e55'1000'0000'0004;

uint64_t Grow(uint64_t hash, TokenId token) {
  // The constant: without it, any number of tokens 0 would leave a hash of 0 as it is.
  return MixBits(hash ^ (uint64_t{token} + 0x9e3779b97f4a7c15));
}

// A prompt's boundary in front of block `block`: the name of all before it.
SequenceHash BoundaryAt(const PromptBeginning& prompt, uint64_t block) {
  return block > 0 ? prompt.chain[block - 1] : SequenceHash{MixBits(prompt.block_seed ^ kRootSeed)};
}

bool HasItems(const PromptBeginning& prompt, uint64_t block) {
  return block < prompt.multimodal.size() && !prompt.multimodal[block].empty();
}

// Whether the tokens of this block say what it holds.
bool TellsTokensOf(const PromptBeginning& prompt, uint64_t block) {
  return !prompt.token_ids.empty() && !HasItems(prompt, block);
}

}  // namespace

Lineage::Lineage(const Options& options)
    : options_(options), ends_(options.max_ends), aliases_(options.max_aliases) {}

std::optional<SessionKey> Lineage::PrefixKey(const PromptBeginning& prompt) const {
  const uint64_t block_size = prompt.naming.block_size_tokens;
  uint64_t n_tokens = options_.prefix_tokens;
  if (prompt.token_ids.empty()) {
    const uint64_t blocks = (n_tokens + block_size - 1) / block_size;
    if (prompt.chain.size() < blocks) return std::nullopt;
    n_tokens = blocks * block_size;
  }
  if (prompt.isl_tokens < n_tokens) return std::nullopt;
  // The blocks within N as N tokens would have them, so that the key is the same at any length.
  const uint64_t blocks =
      prompt.token_ids.empty() ? n_tokens / block_size : FullBlocks(n_tokens, prompt.naming);
  uint64_t hash = MixBits(static_cast<uint64_t>(BoundaryAt(prompt, blocks)) ^ kPrefixSeed);
  for (uint64_t i = blocks * block_size; i < n_tokens; ++i) hash = Grow(hash, prompt.token_ids[i]);
  return KeyOfHash(hash);
}

std::optional<Lineage::Match> Lineage::FindEndAt(const PromptBeginning& prompt,
                                                 uint64_t block) const {
  const SequenceHash boundary = BoundaryAt(prompt, block);
  const auto lengths = boundaries_.find(boundary);
  if (lengths == boundaries_.end()) return std::nullopt;
  const uint64_t first_token = block * prompt.naming.block_size_tokens;
  const uint64_t tokens_after = TellsTokensOf(prompt, block) ? prompt.isl_tokens - first_token : 0;
  std::optional<Match> longest;
  auto hash = static_cast<uint64_t>(boundary);
  uint64_t hashed_tokens = 0;
  for (const TailLength& length : lengths->second) {
    if (length.tokens > tokens_after) break;
    for (; hashed_tokens < length.tokens; ++hashed_tokens) {
      hash = Grow(hash, prompt.token_ids[first_token + hashed_tokens]);
    }
    const EndId id{MixBits(hash ^ length.tokens)};
    if (const End* const end = ends_.Find(id)) longest = Match{.id = id, .session = end->session};
  }
  return longest;
}

std::optional<Lineage::Match> Lineage::FindEnd(const PromptBeginning& prompt) const {
  // Ends lie below N tokens.
  const uint64_t within_n = FullBlocks(options_.prefix_tokens, prompt.naming);
  for (uint64_t block = std::min<uint64_t>(prompt.chain.size(), within_n) + 1; block-- > 0;) {
    if (const auto match = FindEndAt(prompt, block)) return match;
  }
  return std::nullopt;
}

std::optional<Lineage::Place> Lineage::EndOf(const PromptBeginning& prompt) const {
  const uint64_t block = prompt.chain.size();
  const uint64_t first_token = block * prompt.naming.block_size_tokens;
  const uint64_t tail_tokens = prompt.isl_tokens - std::min(first_token, prompt.isl_tokens);
  if (prompt.isl_tokens == 0) return std::nullopt;
  if (tail_tokens > 0 && !TellsTokensOf(prompt, block)) return std::nullopt;
  Place place{.boundary = BoundaryAt(prompt, block),
              .tail_tokens = static_cast<uint32_t>(tail_tokens)};
  auto hash = static_cast<uint64_t>(place.boundary);
  for (uint64_t i = first_token; i < prompt.isl_tokens; ++i) {
    hash = Grow(hash, prompt.token_ids[i]);
  }
  place.id = EndId{MixBits(hash ^ place.tail_tokens)};
  return place;
}

Lineage::Finding Lineage::Look(const PromptBeginning& prompt, const HotKeys* hot) const {
  const auto joins = [&](SessionKey session) { return hot == nullptr || !hot->IsHot(session); };
  Finding found;
  found.prefix = PrefixKey(prompt);
  if (found.prefix) {
    const SessionKey* const alias = aliases_.Find(*found.prefix);
    if (alias != nullptr && (*alias == *found.prefix || joins(*alias))) {
      found.derived = {.key = *alias,
                       .source = *alias == *found.prefix ? Source::kPrefix : Source::kAlias};
      return found;
    }
  }
  if (const auto match = FindEnd(prompt); match && joins(match->session)) {
    found.derived = {.key = match->session, .source = Source::kEnd};
    found.continued = match->id;
  } else if (found.prefix) {
    found.derived = {.key = *found.prefix, .source = Source::kPrefix};
  } else if (const auto end = EndOf(prompt)) {
    found.derived = {.key = KeyOfHash(MixBits(static_cast<uint64_t>(end->id) ^ kStartSeed)),
                     .source = Source::kStart};
  }
  return found;
}

Lineage::Derived Lineage::Find(const PromptBeginning& prompt, const HotKeys* hot) const {
  return Look(prompt, hot).derived;
}

Lineage::Derived Lineage::Assign(const PromptBeginning& prompt, const HotKeys* hot) {
  const Finding found = Look(prompt, hot);
  if (found.derived.key == kNoSession) return found.derived;
  if (found.continued) ends_.Touch(*found.continued);
  if (found.prefix) {
    // Also a key of its own is kept: a conversation that reaches the same N tokens later must not
    // rename this one.
    aliases_.Put(*found.prefix, found.derived.key);
  } else if (const auto end = EndOf(prompt)) {
    Record(*end, found.derived.key);
  }
  return found.derived;
}

void Lineage::Record(const Place& place, SessionKey session) {
  if (!ends_.Contains(place.id)) {
    TailLengths& lengths = boundaries_[place.boundary];
    auto it = std::lower_bound(lengths.begin(), lengths.end(), place.tail_tokens,
                               [](const TailLength& a, uint32_t b) { return a.tokens < b; });
    if (it == lengths.end() || it->tokens != place.tail_tokens) {
      if (lengths.size() >= kMaxTailLengths) {
        ++ends_refused_total_;
        return;
      }
      it = lengths.insert(it, {.tokens = place.tail_tokens, .ends = 0});
    }
    ++it->ends;
  }
  const auto evicted = ends_.Put(
      place.id, {.session = session, .boundary = place.boundary, .tail_tokens = place.tail_tokens});
  if (evicted) Forget(evicted->value);
}

void Lineage::Forget(const End& end) {
  const auto boundary = boundaries_.find(end.boundary);
  TailLengths& lengths = boundary->second;
  const auto it = std::lower_bound(lengths.begin(), lengths.end(), end.tail_tokens,
                                   [](const TailLength& a, uint32_t b) { return a.tokens < b; });
  if (--it->ends > 0) return;
  lengths.erase(it);
  if (lengths.empty()) boundaries_.erase(boundary);
}

Lineage::Stats Lineage::GetStats() const {
  return {.ends = ends_.size(),
          .aliases = aliases_.size(),
          .ends_evicted_total = ends_.EvictionsTotal(),
          .aliases_evicted_total = aliases_.EvictionsTotal(),
          .ends_refused_total = ends_refused_total_};
}

}  // namespace kvrouter
