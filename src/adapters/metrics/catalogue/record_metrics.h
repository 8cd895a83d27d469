#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_RECORD_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_RECORD_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Decisions written down, settings read again, another policy on trial.

// clang-format off
inline constexpr auto kRecordMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kDecisionLogRecords, .name = "kvrouter_decision_log_records_total",
 .type = kCounter, .unit = "decisions", .weighting = kRequest, .origin = kOurs,
 .meaning = "Decisions written to the decision log, advice included.",
 .moves = "With every record that reached the file; 0 without `decision_log_path`."},
{.metric = Metric::kDecisionLogBytes, .name = "kvrouter_decision_log_bytes_total",
 .type = kCounter, .unit = "bytes", .weighting = kEach, .origin = kOurs,
 .meaning = "Bytes of those records.",
 .moves = "With every record that reached the file."},
{.metric = Metric::kDecisionLogIncomplete, .name = "kvrouter_decision_log_incomplete_total",
 .type = kCounter, .unit = "decisions", .weighting = kRequest, .origin = kOurs,
 .meaning = "Records without candidates, which cannot be replayed: there were more than "
            "`decision_log_max_candidates`.",
 .moves = "With every such record."},
{.metric = Metric::kDecisionLogDropped, .name = "kvrouter_decision_log_dropped_total",
 .type = kCounter, .labels = "reason", .unit = "decisions", .weighting = kRequest,
 .origin = kOurs,
 .meaning = "Decisions that are not in the log: queue_full (the disk is slower than decisions "
            "come), too_large, write (the file could not be written).",
 .moves = "With every decision dropped; no request waits or fails for it."},
{.metric = Metric::kDecisionLogQueuedBytes, .name = "kvrouter_decision_log_queued_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Records that wait to be written: what is lost if the process dies.",
 .moves = "With every decision and every write."},
{.metric = Metric::kDecisionLogRotations, .name = "kvrouter_decision_log_rotations_total",
 .type = kCounter, .unit = "files", .weighting = kEach, .origin = kOurs,
 .meaning = "Files of the decision log put aside.",
 .moves = "When a file has grown to `decision_log_file_bytes`, or is damaged at the start."},
{.metric = Metric::kConfigGeneration, .name = "kvrouter_config_generation", .type = kGauge,
 .unit = "changes", .weighting = kLevel, .origin = kOurs,
 .meaning = "The settings that decide, counted: 1 from the start. Each decision is made by one "
            "generation whole, and the decision log names it.",
 .moves = "With every reload that changes them."},
{.metric = Metric::kConfigReloads, .name = "kvrouter_config_reloads_total", .type = kCounter,
 .labels = "result", .unit = "reloads", .weighting = kEach, .origin = kOurs,
 .meaning = "Times the settings were read again: applied, unchanged, refused (a setting needs a "
            "restart), invalid (the file cannot be read, or a value is bad).",
 .moves = "At SIGHUP, and when the config file or that of the policy classes has changed."},
{.metric = Metric::kConfigReloadFailed, .name = "kvrouter_config_reload_failed", .type = kGauge,
 .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 when the last reload was refused or invalid: the file says something else than what "
            "is in force.",
 .moves = "With every reload."},
{.metric = Metric::kShadowDecisions, .name = "kvrouter_shadow_decisions_total", .type = kCounter,
 .labels = "choice", .unit = "decisions", .weighting = kRequest, .origin = kOurs,
 .meaning = "What the shadow policy would have chosen: the same target as was chosen, or another.",
 .moves = "With every booking that had more than one candidate and no pin; 0 without "
          "`shadow_policy`."},
{.metric = Metric::kShadowOverlapBlocks, .name = "kvrouter_shadow_overlap_blocks_total",
 .type = kCounter, .labels = "policy", .unit = "blocks", .weighting = kBlock, .origin = kOurs,
 .meaning = "Effective overlap of those decisions on the target that was chosen (live) and on the "
            "shadow's.",
 .moves = "As kvrouter_shadow_decisions_total."},
{.metric = Metric::kShadowRegretBlocks, .name = "kvrouter_shadow_regret_blocks_total",
 .type = kCounter, .labels = "judge", .unit = "blocks", .weighting = kBlock, .origin = kOurs,
 .meaning = "How much more cost, in blocks, one policy's choice has than the other's: by the costs "
            "in force (live) the shadow's choice, by the shadow's (shadow) the one that was made.",
 .moves = "As kvrouter_shadow_decisions_total, where the two differ."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_RECORD_METRICS_H_
