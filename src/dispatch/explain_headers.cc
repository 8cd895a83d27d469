#include "dispatch/explain_headers.h"

#include <fmt/format.h>

#include <string>

namespace kvrouter {

HeaderList ExplainHeaders(std::string_view request_id, const RouteDecision& decision) {
  HeaderList headers = {
      {"x-kvrouter-request-id", std::string(request_id)},
      {"x-kvrouter-worker", fmt::format("{}/{}", static_cast<uint64_t>(decision.target.worker),
                                        decision.target.dp_rank)},
      {"x-kvrouter-plan", std::string(PlanName(decision.plan))},
      {"x-kvrouter-reason", std::string(DecisionReasonName(decision.reason))},
      {"x-kvrouter-overlap-tokens",
       fmt::format("{}", decision.overlap_blocks * decision.block_size_tokens)},
      {"x-kvrouter-prompt-tokens", fmt::format("{}", decision.isl_tokens)},
  };
  if (!decision.planning) return headers;
  const Planning& planning = *decision.planning;
  std::string why;
  if (planning.gate) why = DescribeGate(*planning.gate);
  if (!planning.prefill_refused.empty()) why += "; prefill refused: " + planning.prefill_refused;
  if (planning.migration) why += (why.empty() ? "" : "; ") + DescribeMigration(*planning.migration);
  if (!why.empty()) headers.emplace_back("x-kvrouter-explanation", why);
  return headers;
}

}  // namespace kvrouter
