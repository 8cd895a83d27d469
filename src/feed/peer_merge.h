#ifndef KVROUTER_FEED_PEER_MERGE_H_
#define KVROUTER_FEED_PEER_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What of another router's picture of one rank may be added to ours. Its picture was taken between
// our question and its answer, we do not know when; so of every block that the engine has spoken of
// since the question, our own knowledge counts, and of the others its.
//
//   question        live: stored c, removed b                      answer: a b, a d
//   |-------------------------------------------------------------|--> a, a d
//
// Thread-compatible.
class PeerMerge {
 public:
  static constexpr size_t kMaxNotedHashes = 1u << 18;

  explicit PeerMerge(Target target) : target_(target) {}

  // Every event that is applied between question and answer; those of other targets are ignored.
  void Note(const KvEvent& event);

  // Too much has happened, or the rank was emptied: nothing of the answer can be used.
  bool Void() const { return void_; }

  // What is left of the answer's stored events. Those whose parent is not held are for the index to
  // refuse. REQUIRES: !Void().
  std::vector<KvEvent> Keep(const std::vector<KvEvent>& answer) const;

 private:
  const Target target_;
  bool void_ = false;
  absl::flat_hash_set<EngineHash> noted_;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PEER_MERGE_H_
