#include "ctl/replay/replay_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

std::string NameOf(const Target& target) {
  return fmt::format("{}/{}", static_cast<uint64_t>(target.worker), target.dp_rank);
}

double UncachedTokens(const DecisionRecord& record, double overlap_blocks) {
  const auto isl_tokens = static_cast<double>(record.isl_tokens);
  return isl_tokens - std::min(isl_tokens, std::round(overlap_blocks * record.block_size_tokens));
}

}  // namespace

void ReplayTotals::Add(const DecisionRecord& record) {
  const uint64_t number = records_++;
  const auto again = Redecide(record, change_, number);
  if (!again.ok()) return;
  ++replayed_;
  if (!IsByCost(record.reason)) ++kept_[record.reason];
  recorded_overlap_blocks_ += again->recorded_overlap_blocks;
  new_overlap_blocks_ += again->overlap_blocks;
  recorded_cost_blocks_ += again->recorded_cost_blocks;
  new_cost_blocks_ += again->cost_blocks;
  const Target target = record.candidates[again->index].target;
  if (record.booked) {
    for (const CandidateInput& candidate : record.candidates) prefill_[candidate.target];
    prefill_[record.target].recorded_tokens +=
        UncachedTokens(record, again->recorded_overlap_blocks);
    prefill_[target].new_tokens += UncachedTokens(record, again->overlap_blocks);
  }
  if (!again->moves) return;
  ++moved_;
  if (first_moved_.size() >= shown_) return;
  first_moved_.push_back({.request_id = record.request_id,
                          .model_name = record.model_name,
                          .from = record.target,
                          .to = target,
                          .from_overlap_blocks = again->recorded_overlap_blocks,
                          .to_overlap_blocks = again->overlap_blocks,
                          .from_cost_blocks = again->recorded_cost_blocks,
                          .to_cost_blocks = again->cost_blocks});
}

double ReplayTotals::MaxOverMean(double Prefill::*tokens) const {
  double sum = 0;
  double most = 0;
  for (const auto& [target, prefill] : prefill_) {
    sum += prefill.*tokens;
    most = std::max(most, prefill.*tokens);
  }
  return sum > 0 ? most * static_cast<double>(prefill_.size()) / sum : 0;
}

// E.g. "7 (pinned 1, session 6): as recorded, whatever the settings".
std::string ReplayTotals::KeptText() const {
  uint64_t sum = 0;
  std::string reasons;
  for (const auto& [reason, decisions] : kept_) {
    sum += decisions;
    reasons +=
        fmt::format("{}{} {}", reasons.empty() ? "" : ", ", DecisionReasonName(reason), decisions);
  }
  return fmt::format("{} ({}): as recorded, whatever the settings", sum, reasons);
}

std::string ReplayTotals::Text() const {
  std::string out;
  if (!first_moved_.empty()) {
    Table table({"REQUEST", "MODEL", "FROM", "TO", "OVERLAP", "NOW", "COST", "NOW"});
    for (const Moved& moved : first_moved_) {
      table.AddRow({moved.request_id, moved.model_name, NameOf(moved.from), NameOf(moved.to),
                    Number(moved.from_overlap_blocks), Number(moved.to_overlap_blocks),
                    Number(moved.from_cost_blocks), Number(moved.to_cost_blocks)});
    }
    out += table.Text();
    if (moved_ > first_moved_.size())
      out += fmt::format("... and {} more\n", moved_ - first_moved_.size());
    out += "\n";
  }
  const double share =
      replayed_ == 0 ? 0 : 100 * static_cast<double>(moved_) / static_cast<double>(replayed_);
  out += fmt::format("decisions         {}\n", records_);
  if (replayed_ < records_)
    out += fmt::format("cannot be replayed {} (not all candidates were recorded)\n",
                       records_ - replayed_);
  out += fmt::format("would move        {} ({} %)\n", moved_, Number(share, 2));
  if (!kept_.empty()) out += fmt::format("not by cost       {}\n", KeptText());
  const auto line = [&out](const char* what, double recorded, double now, const char* unit) {
    out += fmt::format("{:<17} recorded {}, now {}{} ({}{})\n", what, Number(recorded), Number(now),
                       unit, now >= recorded ? "+" : "", Number(now - recorded));
  };
  line("overlap", recorded_overlap_blocks_, new_overlap_blocks_, " blocks");
  line("cost", recorded_cost_blocks_, new_cost_blocks_, " blocks, by the settings of the replay");
  line("prefill max/mean", MaxOverMean(&Prefill::recorded_tokens),
       MaxOverMean(&Prefill::new_tokens), "");
  return out;
}

std::string ReplayTotals::Json() const {
  nlohmann::json moved = nlohmann::json::array();
  for (const Moved& m : first_moved_) {
    moved.push_back({{"request_id", m.request_id},
                     {"model_name", m.model_name},
                     {"from", NameOf(m.from)},
                     {"to", NameOf(m.to)},
                     {"recorded_overlap_blocks", m.from_overlap_blocks},
                     {"overlap_blocks", m.to_overlap_blocks},
                     {"recorded_cost_blocks", m.from_cost_blocks},
                     {"cost_blocks", m.to_cost_blocks}});
  }
  nlohmann::json kept = nlohmann::json::object();
  for (const auto& [reason, decisions] : kept_)
    kept[std::string(DecisionReasonName(reason))] = decisions;
  const nlohmann::json out = {
      {"decisions", records_},
      {"replayed", replayed_},
      {"moved", moved_},
      {"not_by_cost", std::move(kept)},
      {"recorded_overlap_blocks", recorded_overlap_blocks_},
      {"overlap_blocks", new_overlap_blocks_},
      {"recorded_cost_blocks", recorded_cost_blocks_},
      {"cost_blocks", new_cost_blocks_},
      {"recorded_prefill_max_over_mean", MaxOverMean(&Prefill::recorded_tokens)},
      {"prefill_max_over_mean", MaxOverMean(&Prefill::new_tokens)},
      {"first_moved", std::move(moved)}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace kvrouter::ctl
