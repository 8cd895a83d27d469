#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_ANSWERS_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_ANSWERS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/http/http_server.h"
#include "adapters/http/ops.h"
#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/selection_workers.h"
#include "service/worker_signs.h"

namespace kvrouter {

// Answers of the selection API as JSON text. Names, units (tokens or blocks) and nesting are
// upstream's. Pure functions.

HttpResponse JsonAnswer(int status, std::string body);
HttpResponse OkAnswer();  // {"status":"ok"}

std::string WorkerJson(const SelectionWorker& worker);
// With the worker's signs, unless `signs` is null, and with the event feed of each rank: its state,
// and why it is degraded, and with what keeps a rank from being picked (`loads`). Both in ascending
// order of targets.
std::string WorkersJson(std::span<const SelectionWorker> workers, const WorkerSignBoard* signs,
                        std::span<const FeedReport> feeds, std::span<const TargetLoad> loads,
                        MonotonicTime now);

// What the caller still has to compute of the prompt on the chosen target.
uint64_t EffectivePrefillTokens(const RouteDecision& decision);

struct BookedPrompt {
  std::span<const SequenceHash> sequence_hashes;
  bool track_prefill_tokens = true;
};
// `selection_id` empty: none. `booked`: the fields only /select_and_reserve has.
std::string SelectionJson(std::string_view selection_id, const RouteRequest& request,
                          const RouteDecision& decision, const std::optional<BookedPrompt>& booked);
std::string ReservationJson(std::string_view selection_id, std::string_view model_name,
                            std::string_view routing_group, const RouteDecision& decision);

// What waits in a partition's queue.
struct Pending {
  uint64_t requests = 0;
  uint64_t isl_tokens = 0;
};
Pending PendingOf(const PartitionSnapshot& partition);

std::string LoadsJson(std::span<const PartitionSnapshot> partitions);
std::string PotentialLoadsJson(const RouteRequest& request,
                               std::span<const TargetPotentialLoad> loads, const Pending& pending);
std::string OverlapScoresJson(uint32_t block_size_tokens, uint64_t blocks,
                              const CostWeights& weights, std::span<const TargetOverlap> overlaps,
                              std::span<const TargetLoad> targets);
std::string ReadyJson(const Readiness& readiness, std::span<const SelectionWorker> workers);

// A RouterEvent of Dynamo's event plane.
std::string EventJson(const KvEvent& event);
// `text` as a JSON string with its quotes.
std::string JsonText(std::string_view text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_ANSWERS_H_
