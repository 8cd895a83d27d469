#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_PUBLISHER_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_PUBLISHER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "kvrouter/types.h"
#include "property/truth/engine.h"
#include "property/truth/prompt_tree.h"

namespace kvrouter::truth {

// One message of Dynamo's event plane.
struct PlaneMessage {
  Target target;
  Said said;  // the batch that it tells of
  std::string envelope;
  bool intact = true;
};

// What a Dynamo worker makes of its engine's batches: a set of blocks, each announced with its
// content hash and removed with its last copy; events with ids that count up by one, from 0 in each
// life.
class PlanePublisher {
 public:
  PlanePublisher(Target target, const PromptTree* tree, uint64_t seed)
      : target_(target), tree_(*tree), seed_(seed) {}

  PlaneMessage Tell(const Batch& batch);

 private:
  std::string Data(const CacheOp& op);

  const Target target_;
  const PromptTree& tree_;
  const uint64_t seed_;
  uint64_t life_ = 0;
  uint64_t next_event_id_ = 0;
  uint64_t next_message_ = 0;
  std::map<std::pair<StorageTier, NodeId>, int> copies_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_PUBLISHER_H_
