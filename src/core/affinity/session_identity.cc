#include "core/affinity/session_identity.h"

#include <algorithm>

namespace kvrouter {
namespace {

using Source = SessionIdentifier::Source;

Source SourceOf(Lineage::Source source) {
  switch (source) {
    case Lineage::Source::kNone:
      return Source::kNone;
    case Lineage::Source::kPrefix:
      return Source::kPrefix;
    case Lineage::Source::kAlias:
      return Source::kAlias;
    case Lineage::Source::kEnd:
      return Source::kEnd;
    case Lineage::Source::kStart:
      return Source::kStart;
  }
  return Source::kNone;
}

}  // namespace

SessionIdentifier::SessionIdentifier(const Options& options)
    : options_(options),
      lineage_({.prefix_tokens = options.prefix_tokens,
                .max_ends = options.max_ends,
                .max_aliases = options.max_aliases}),
      hot_keys_(options.hot_keys) {}

SessionIdentifier::Identity SessionIdentifier::Identify(std::string_view caller_id,
                                                        const PromptBeginning& prompt,
                                                        uint64_t targets, MonotonicTime now) {
  if (!caller_id.empty()) return {.key = KeyOfCallerId(caller_id), .source = Source::kCaller};
  if (!derives()) return {};
  const Lineage::Derived derived = lineage_.Assign(prompt, &hot_keys_);
  if (derived.key == kNoSession) return {};
  const HotKeys::Load load{
      .weight_tokens = static_cast<double>(std::max<uint64_t>(prompt.isl_tokens, 1)),
      .targets = targets};
  return {.key = derived.key,
          .source = SourceOf(derived.source),
          .hot = hot_keys_.Note(derived.key, load, now)};
}

SessionIdentifier::Identity SessionIdentifier::Peek(std::string_view caller_id,
                                                    const PromptBeginning& prompt) const {
  if (!caller_id.empty()) return {.key = KeyOfCallerId(caller_id), .source = Source::kCaller};
  if (!derives()) return {};
  const Lineage::Derived derived = lineage_.Find(prompt, &hot_keys_);
  return {.key = derived.key,
          .source = SourceOf(derived.source),
          .hot = derived.key != kNoSession && hot_keys_.IsHot(derived.key)};
}

}  // namespace kvrouter
