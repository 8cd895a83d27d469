#ifndef KVROUTER_SIM_REPORT_POLICY_ROW_H_
#define KVROUTER_SIM_REPORT_POLICY_ROW_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kvrouter::sim {

// One run of one policy over one trace, live or in virtual time: a row of the table that every
// simulator command prints. Ratios name their weighting. Absent figures are "-" in the table and
// null in JSON.
struct PolicyRow {
  std::string trace;
  std::string policy;  // kv, round_robin, random, least_loaded
  std::string mode;    // live or virtual

  // Reuse that the router predicted when it decided, over prompt tokens, and that the engines found
  // when they computed.
  std::optional<double> router_token_weighted;
  std::optional<double> engine_token_weighted;
  // Predicted blocks over ceil(prompt / block): Dynamo's counters. What the engines found over full
  // blocks only: the published tables.
  std::optional<double> router_block_weighted;
  std::optional<double> full_block_hit;
  // Mean of the per-request ratios: the figure that hides long prompts.
  std::optional<double> request_weighted;
  // Of the prompt tokens each worker had to compute.
  std::optional<double> max_over_mean_prefill;
  // In model seconds, since the recorded arrival.
  std::optional<double> ttft_p50_s;
  std::optional<double> ttft_p99_s;

  // Whatever else a run knows of itself; in JSON only.
  std::map<std::string, double> details;
};

// Column heads are the names of the fields, cut into lines.
std::string FormatPolicyTable(const std::vector<PolicyRow>& rows);

// [{"trace": …, "policy": …, …, "details": {…}}]; members that a row does not know are ignored.
std::string PolicyRowsToJson(const std::vector<PolicyRow>& rows);
absl::StatusOr<std::vector<PolicyRow>> PolicyRowsFromJson(std::string_view text);

// Smallest value that at least `fraction` of the values do not exceed; nothing for no values.
// Reorders `values`.
std::optional<double> NearestRank(std::vector<double>& values, double fraction);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_REPORT_POLICY_ROW_H_
