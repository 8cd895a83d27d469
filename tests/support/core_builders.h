#ifndef KVROUTER_TESTS_SUPPORT_CORE_BUILDERS_H_
#define KVROUTER_TESTS_SUPPORT_CORE_BUILDERS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/decision_sink.h"
#include "kvrouter/router.h"

namespace kvrouter::testing {

inline constexpr uint32_t kBlockSize = 16;

// What a test does not care about is filled in.
inline WorkerSpec AWorker(uint64_t id, uint64_t incarnation = 1) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.incarnation = Incarnation{incarnation};
  spec.address = "http://worker-" + std::to_string(id);
  spec.block_size_tokens = kBlockSize;
  return spec;
}

inline Target TargetOf(uint64_t worker, uint32_t dp_rank = 0) {
  return {.worker = WorkerId{worker}, .dp_rank = dp_rank};
}

inline std::vector<TokenId> TokensFrom(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Borrows the tokens.
inline RouteRequest ARequest(const std::vector<TokenId>& tokens) {
  RouteRequest request;
  request.request_id = "r";
  request.prompt = TokenPrompt{tokens};
  return request;
}

// The worker's engine has cached all full blocks of `tokens`. Engine hashes are the sequence
// hashes.
inline KvEvent StoredEvent(const std::vector<TokenId>& tokens, Target target,
                           uint64_t incarnation = 1) {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  AppendLocalBlockHashes(tokens, kBlockSize, BlockSeed({}), &local);
  AppendSequenceHashes(local, &sequence);
  Stored stored;
  for (size_t i = 0; i < local.size(); ++i) {
    stored.blocks.push_back(
        {.engine_hash = EngineHash{static_cast<uint64_t>(sequence[i])}, .local_hash = local[i]});
  }
  KvEvent event;
  event.target = target;
  event.incarnation = Incarnation{incarnation};
  event.data = std::move(stored);
  return event;
}

// The engine hashes StoredEvent gives to the blocks of `tokens`.
inline std::vector<EngineHash> EngineHashesOf(const std::vector<TokenId>& tokens) {
  std::vector<EngineHash> hashes;
  const KvEvent event = StoredEvent(tokens, {});
  for (const StoredBlock& block : std::get<Stored>(event.data).blocks) {
    hashes.push_back(block.engine_hash);
  }
  return hashes;
}

inline KvEvent AnEvent(Target target, decltype(KvEvent::data) data, uint64_t incarnation = 1) {
  KvEvent event;
  event.target = target;
  event.incarnation = Incarnation{incarnation};
  event.data = std::move(data);
  return event;
}

// The decision of a request that must succeed.
inline RouteDecision Decide(Router& router, const RouteRequest& request, MonotonicTime now = {}) {
  const auto submission = router.Submit(request, now);
  EXPECT_TRUE(submission.ok()) << submission.status();
  if (!submission.ok()) return {};
  return std::get<RouteDecision>(*submission);
}

inline absl::Status ErrorOf(Router& router, const RouteRequest& request, MonotonicTime now = {}) {
  return router.Submit(request, now).status();
}

// Blocks of the prompt that the index believes the target holds.
inline uint32_t OverlapOf(const Router& router, const std::vector<TokenId>& tokens, Target target) {
  const auto overlaps = router.FindOverlap(ARequest(tokens));
  EXPECT_TRUE(overlaps.ok()) << overlaps.status();
  if (!overlaps.ok()) return 0;
  for (const TargetOverlap& overlap : *overlaps) {
    if (overlap.target == target) return overlap.device_blocks;
  }
  return 0;
}

inline std::optional<TargetLoad> LoadOf(const Router& router, Target target) {
  for (const PartitionSnapshot& partition : router.Snapshot()) {
    for (const TargetLoad& load : partition.loads) {
      if (load.target == target) return load;
    }
  }
  return std::nullopt;
}

inline void ExpectIdle(const Router& router) {
  for (const PartitionSnapshot& partition : router.Snapshot()) {
    EXPECT_EQ(partition.bookings, 0u);
    for (const TargetLoad& load : partition.loads) {
      EXPECT_EQ(load.active_prefill_tokens, 0u) << static_cast<uint64_t>(load.target.worker);
      EXPECT_EQ(load.active_decode_blocks, 0) << static_cast<uint64_t>(load.target.worker);
      EXPECT_EQ(load.active_requests, 0u) << static_cast<uint64_t>(load.target.worker);
    }
  }
}

// Remembers what it was told. Thread-safe.
class RecordingSink final : public DecisionSink {
 public:
  void OnDecision(const RouteRequest& request, const RouteDecision& decision) override {
    MutexLock lock(mu_);
    ids_.push_back(request.request_id);
    decisions_.push_back(decision);
  }
  std::vector<RouteDecision> Decisions() const {
    MutexLock lock(mu_);
    return decisions_;
  }
  std::vector<std::string> RequestIds() const {
    MutexLock lock(mu_);
    return ids_;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> ids_ ABSL_GUARDED_BY(mu_);
  std::vector<RouteDecision> decisions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter::testing

#endif  // KVROUTER_TESTS_SUPPORT_CORE_BUILDERS_H_
