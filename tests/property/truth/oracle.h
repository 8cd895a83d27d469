#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_ORACLE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_ORACLE_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvrouter/router.h"
#include "property/truth/engine.h"
#include "property/truth/prompt_tree.h"

namespace kvrouter::truth {

// One rank as the oracle sees it: the engine itself, what could be known of it, and what the feed
// says of itself.
struct Subject {
  Target target;
  const Engine* engine = nullptr;
  // When it could be known that a batch was said; nothing: not yet.
  std::function<std::optional<MonotonicTime>(Said)> noticed_at;
  // Whatever was lost was to be had.
  bool must_be_whole = false;
  bool says_live = false;
  std::string says;
};

// How long the router may go on believing in a block that the engine lost, once that could be
// known and while a replay's answer does not come: docs/routing.md#truth.
inline constexpr MonotonicTime kFalseHitBound = std::chrono::seconds(16);

// One prompt: a path of the tree, and perhaps words after it that nobody ever said.
struct Probe {
  std::vector<NodeId> path;
  bool foreign_tail = false;
};

// At a quiet point: every prefix of every prompt. What is wrong, or nothing.
std::optional<std::string> CheckQuiet(const Router& router, const PromptTree& tree,
                                      const std::vector<Subject>& subjects, Dice* dice);

// At any time: false hits are younger than the bound.
std::optional<std::string> CheckRunning(const Router& router, const PromptTree& tree,
                                        const std::vector<Subject>& subjects, uint32_t probes,
                                        MonotonicTime now, Dice* dice);

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_ORACLE_H_
