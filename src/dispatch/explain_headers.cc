#include "dispatch/explain_headers.h"

#include <fmt/format.h>

#include <string>

namespace kvrouter {

namespace {

std::string WorkerText(const Target& target) {
  return fmt::format("{}/{}", static_cast<uint64_t>(target.worker), target.dp_rank);
}

}  // namespace

HeaderList ExplainHeaders(std::string_view request_id, const RouteDecision& decision,
                          const std::optional<Target>& prefill_worker,
                          const std::string& explanation) {
  HeaderList headers = {
      {"x-kvrouter-request-id", std::string(request_id)},
      {"x-kvrouter-worker", WorkerText(decision.target)},
      {"x-kvrouter-plan", std::string(PlanName(decision.plan))},
      {"x-kvrouter-reason", std::string(DecisionReasonName(decision.reason))},
      {"x-kvrouter-overlap-tokens",
       fmt::format("{}", decision.overlap_blocks * decision.block_size_tokens)},
      {"x-kvrouter-prompt-tokens", fmt::format("{}", decision.isl_tokens)},
  };
  if (prefill_worker)
    headers.emplace_back("x-kvrouter-prefill-worker", WorkerText(*prefill_worker));
  if (!explanation.empty()) headers.emplace_back("x-kvrouter-explanation", explanation);
  return headers;
}

std::string ExplanationOf(const RouteDecision& decision) {
  if (!decision.planning) return "";
  const Planning& planning = *decision.planning;
  std::string why;
  if (planning.gate) why = DescribeGate(*planning.gate);
  if (!planning.prefill_refused.empty()) why += "; prefill refused: " + planning.prefill_refused;
  if (planning.migration) why += (why.empty() ? "" : "; ") + DescribeMigration(*planning.migration);
  return why;
}

}  // namespace kvrouter
