#include <fmt/format.h>

#include <string>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

// Reasons of kvrouter_feed_skipped_total that mean something is wrong. The others are in the nature
// of the engines: copies, groups that are not indexed, leftovers of broken connections.
struct SkipMeaning {
  const char* reason;
  Severity severity;
  const char* what;
  const char* help;
};
constexpr SkipMeaning kSkips[] = {
    {"block_size", Severity::kCritical,
     "engines announce blocks of another size than their workers were registered with",
     "set the worker's block_size to the engine's --block-size"},
    {"token_form", Severity::kCritical,
     "workers registered as EAGLE send single tokens, so nothing of them can be indexed",
     "register them without is_eagle (vLLM announces ordinary blocks with EAGLE, too)"},
    {"bad_framing", Severity::kWarning, "messages on event sockets are no KV events",
     "the port must be that of the engine's KV event socket"},
    {"bad_envelope", Severity::kWarning, "event messages cannot be read",
     "is the engine's version known to this router? docs/parity.md"},
    {"bad_event", Severity::kWarning, "events are malformed",
     "is the engine's version known to this router? docs/parity.md"},
    {"unknown_tag", Severity::kWarning, "engines send events that this router does not know",
     "a newer router may know them"},
    {"unknown_medium", Severity::kWarning,
     "engines store blocks on media that this router does "
     "not know; they are left out",
     "a newer router may know them"},
    {"non_integer_tokens", Severity::kWarning, "events name tokens that are no numbers",
     "the engine's tokenizer or mode is not supported; those blocks are routed to by load"},
    {"rank_out_of_range", Severity::kWarning, "events name ranks that their workers have not",
     "dp_size and dp_start_rank of the worker"},
    {"unknown_lora", Severity::kWarning,
     "blocks of adapters are known only by a number of the "
     "engine's process",
     "load adapters by name; a newer vLLM sends the name"},
    {"multimodal", Severity::kNote, "blocks with images of unknown identity are not indexed",
     "docs/routing.md#images"},
    {"oversized", Severity::kWarning, "event messages were over the size limit",
     "the engine's max batch of events; docs/operations.md#bounds"},
    {"unknown_worker", Severity::kWarning,
     "events of the event plane name workers that are not "
     "registered",
     "register them under the worker_id (instance id) that the events name"},
    {"unknown_domain", Severity::kWarning,
     "events of the event plane have a residency domain "
     "that this router does not know",
     "a newer router may know it"},
};

void CheckSkips(const Observations& seen, std::vector<Finding>* out) {
  for (const SkipMeaning& skip : kSkips) {
    const double count =
        TotalWith(seen.recent, "kvrouter_feed_skipped_total", "reason", skip.reason);
    if (count <= 0) continue;
    out->push_back({skip.severity,
                    fmt::format("skipped_{}", skip.reason),
                    skip.what,
                    {{fmt::format("kvrouter_feed_skipped_total{{reason=\"{}\"}}", skip.reason),
                      Figure(count), "0"}},
                    skip.help});
  }
}

void CheckHistory(const Observations& seen, std::vector<Finding>* out) {
  const auto count = [&](const char* name) { return Total(seen.recent, name); };
  if (const double orphans = count("kvrouter_orphan_blocks_total"); orphans > 0) {
    out->push_back({Severity::kWarning,
                    "orphan_blocks",
                    "blocks continue others that were never announced: history was lost, or an "
                    "engine's hashes changed under its socket (another hash seed after a restart)",
                    {{"kvrouter_orphan_blocks_total", Figure(orphans), "0"}},
                    "a replay endpoint that keeps more (buffer_steps); a restarted engine needs a "
                    "restarted publisher"});
  }
  const double failed = TotalWith(seen.recent, "kvrouter_feed_replays_total", "outcome", "failed");
  if (failed > 0) {
    out->push_back({Severity::kWarning,
                    "replays_failed",
                    "replays ended without the whole history",
                    {{"kvrouter_feed_replays_total{outcome=\"failed\"}", Figure(failed), "0"},
                     {"started", Figure(count("kvrouter_feed_replays_started_total")), "-"}},
                    "larger buffer_steps in the engine, replay_timeout_ms here; can the replay "
                    "port be reached?"});
  }
  if (const double dropped = count("kvrouter_feed_live_dropped_total"); dropped > 0) {
    out->push_back(
        {Severity::kWarning,
         "live_dropped",
         "event messages were dropped for want of room: while a replay ran (they are replayed "
         "again), or because the event plane flooded the daemon",
         {{"kvrouter_feed_live_dropped_total", Figure(dropped), "0"}},
         "max_live_batches_during_replay, event_plane_queue_messages"});
  }
  if (const double full = count("kvrouter_feed_hash_memory_full_total"); full > 0) {
    out->push_back({Severity::kWarning,
                    "hash_memory_full",
                    "too many skipped or salted blocks to remember: their removals or "
                    "continuations are taken for lost history",
                    {{"kvrouter_feed_hash_memory_full_total", Figure(full), "0"}},
                    "what is skipped, by reason: kvrouterctl metrics kvrouter_feed_skipped"});
  }
  if (const double restarts = count("kvrouter_feed_restarts_total"); restarts > 0) {
    out->push_back({Severity::kNote,
                    "engine_restarts",
                    "engines restarted; their blocks were dropped and replayed",
                    {{"kvrouter_feed_restarts_total", Figure(restarts), "0"}},
                    "why do they restart?"});
  }
  const double unknown = TotalWith(seen.recent, "dynamo_component_kv_cache_events_applied",
                                   "status", "unknown_worker");
  if (unknown > 0) {
    out->push_back({Severity::kWarning,
                    "events_of_unknown_workers",
                    "events came for workers or ranks that are not registered",
                    {{"dynamo_component_kv_cache_events_applied{status=\"unknown_worker\"}",
                      Figure(unknown), "0"}},
                    "few after a removal are normal; else compare worker ids and ranks with "
                    "kvrouterctl workers"});
  }
}

}  // namespace

void CheckEvents(const Observations& seen, std::vector<Finding>* out) {
  CheckSkips(seen, out);
  CheckHistory(seen, out);
}

}  // namespace kvrouter::ctl
