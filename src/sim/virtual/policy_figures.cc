#include "sim/virtual/policy_figures.h"

#include "base/check.h"

namespace kvrouter::sim {
namespace {

constexpr FigureColumn kColumns[] = {
    {"router_token_weighted", &PolicyFigures::router_token_weighted, 4},
    {"engine_token_weighted", &PolicyFigures::engine_token_weighted, 4},
    {"router_block_weighted", &PolicyFigures::router_block_weighted, 4},
    {"full_block_hit", &PolicyFigures::full_block_hit, 4},
    {"request_weighted", &PolicyFigures::request_weighted, 4},
    {"full_block_request_hit", &PolicyFigures::full_block_request_hit, 4},
    {"max_over_mean_prefill", &PolicyFigures::max_over_mean_prefill, 2},
    {"max_over_mean_requests", &PolicyFigures::max_over_mean_requests, 2},
    {"ttft_p50_s", &PolicyFigures::ttft_p50_s, 2},
    {"ttft_p99_s", &PolicyFigures::ttft_p99_s, 2},
    {"prefill_util", &PolicyFigures::prefill_util, 2},
};

}  // namespace

std::span<const FigureColumn> FigureColumns() { return kColumns; }

PolicyFigures MeanFigures(std::span<const PolicyFigures> runs) {
  KVR_CHECK(!runs.empty(), "no runs");
  PolicyFigures mean = runs.front();
  for (const FigureColumn& column : kColumns) {
    double sum = 0;
    for (const PolicyFigures& run : runs) sum += run.*column.figure;
    mean.*column.figure = sum / static_cast<double>(runs.size());
  }
  return mean;
}

}  // namespace kvrouter::sim
