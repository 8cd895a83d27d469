#include "ctl/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/enum_text.h"
#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

std::string TargetText(const v1::Target& target) {
  return fmt::format("{}/{}", target.worker_id(), target.dp_rank());
}

bool Same(const v1::Target& a, const v1::Target& b) {
  return a.worker_id() == b.worker_id() && a.dp_rank() == b.dp_rank();
}

std::string AgeText(double seconds) {
  if (seconds < 120) return fmt::format("{} s", Number(seconds, 1));
  if (seconds < 7200) return fmt::format("{} min", Number(seconds / 60, 1));
  return fmt::format("{} h", Number(seconds / 3600, 1));
}

std::string WhyText(const v1::RouteResponse& r) {
  switch (r.reason()) {
    case v1::DECISION_REASON_LOWEST_COST:
      return fmt::format("it had the lowest cost of {} candidates", r.candidate_count());
    case v1::DECISION_REASON_TIE_BREAK:
      return fmt::format("{} of {} candidates shared the lowest cost; drawn among them (draw {})",
                         r.tie_size(), r.candidate_count(), Number(r.draw()));
    case v1::DECISION_REASON_SAMPLED:
      return fmt::format("drawn by cost among {} candidates at temperature {} (draw {})",
                         r.candidate_count(), Number(r.temperature()), Number(r.draw()));
    case v1::DECISION_REASON_ONLY_CANDIDATE:
      return "it was the only candidate";
    case v1::DECISION_REASON_PINNED:
      return "the caller pinned it";
    case v1::DECISION_REASON_SESSION:
      return "its session is bound there";
    case v1::DECISION_REASON_RENDEZVOUS:
      return "every router would choose it for the conversation";
    default:
      return "for a reason this kvrouterctl does not know";
  }
}

std::string CacheText(const v1::RouteResponse& r) {
  std::string text = fmt::format("Cache: it held {} of the prompt's {} blocks",
                                 Number(r.effective_overlap_blocks()), r.isl_blocks());
  if (r.regret_blocks() > 0) {
    text += fmt::format("; {} held {}, so {} blocks were given up for the sake of load.\n",
                        TargetText(r.best_available_overlap_target()),
                        Number(r.best_available_overlap_blocks()), Number(r.regret_blocks()));
  } else if (r.best_available_overlap_blocks() > 0) {
    text += "; no other candidate held more.\n";
  } else {
    text += "; no candidate held any.\n";
  }
  if (r.best_overlap_blocks() > r.best_available_overlap_blocks()) {
    text += fmt::format("Out of reach: {} held {}, but was no candidate.\n",
                        TargetText(r.best_overlap_target()), Number(r.best_overlap_blocks()));
  }
  return text;
}

// The chosen one first, then its rivals, cheapest first.
std::vector<const v1::CandidateCost*> ChosenFirst(const v1::RouteResponse& r) {
  std::vector<const v1::CandidateCost*> candidates;
  for (const v1::CandidateCost& candidate : r.candidates()) candidates.push_back(&candidate);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&r](const v1::CandidateCost* a, const v1::CandidateCost* b) {
                     const bool a_chosen = Same(a->target(), r.target());
                     if (a_chosen != Same(b->target(), r.target())) return a_chosen;
                     return a->cost_blocks() < b->cost_blocks();
                   });
  return candidates;
}

std::string CandidatesText(const v1::RouteResponse& r) {
  Table table({"", "TARGET", "OVERLAP", "CREDIT", "PENDING", "PREFILL", "DECODE", "REQUESTS",
               "TAINT", "COST"});
  for (const v1::CandidateCost* c : ChosenFirst(r)) {
    table.AddRow({Same(c->target(), r.target()) ? "*" : "", TargetText(c->target()),
                  Number(c->effective_overlap_blocks()), Number(c->credit_blocks()),
                  Number(c->raw_prefill_blocks()), Number(c->prefill_cost_blocks()),
                  Number(c->decode_blocks()), Number(c->request_cost_blocks()),
                  Number(c->taint_multiplier()), Number(c->cost_blocks())});
  }
  std::string text = table.Text();
  if (r.has_omitted()) {
    text +=
        fmt::format("and {} more candidates with costs {} to {}, {} on average\n",
                    r.omitted().count(), Number(r.omitted().min_cost_blocks()),
                    Number(r.omitted().max_cost_blocks()), Number(r.omitted().mean_cost_blocks()));
  }
  return text + fmt::format(
                    "In blocks of {} tokens. PREFILL = {} x max(0, PENDING - CREDIT); COST = "
                    "(PREFILL + DECODE + REQUESTS) x TAINT.\n",
                    r.block_size_tokens(), Number(r.weights().prefill_load_scale()));
}

std::string_view FilterText(v1::FilterReason reason) {
  switch (reason) {
    case v1::FILTER_REASON_OTHER_ROLE:
      return "its role";
    case v1::FILTER_REASON_NOT_PINNED:
      return "another one is pinned";
    case v1::FILTER_REASON_NOT_ALLOWED:
      return "not in allowed_worker_ids";
    case v1::FILTER_REASON_EXCLUDED:
      return "excluded by the request";
    case v1::FILTER_REASON_DRAINING:
      return "draining";
    case v1::FILTER_REASON_TAINTS:
      return "lacks a required taint";
    case v1::FILTER_REASON_NO_LORA_REPLICA:
      return "does not serve the adapter";
    case v1::FILTER_REASON_OVERLOADED:
      return "overloaded";
    case v1::FILTER_REASON_EJECTED:
      return "taken out for its failures";
    default:
      return "unknown reason";
  }
}

std::string FilteredText(const v1::RouteResponse& r) {
  const v1::FilterCounts& counts = r.filtered();
  const uint64_t total = uint64_t{counts.not_pinned()} + counts.not_allowed() + counts.excluded() +
                         counts.draining() + counts.overloaded() + counts.taints() +
                         counts.no_lora_replica() + counts.ejected() + counts.other_role();
  if (total == 0) return "\nNobody was filtered out.\n";
  const std::pair<uint32_t, std::string_view> reasons[] = {
      {counts.not_pinned(), "not pinned"},     {counts.not_allowed(), "not allowed"},
      {counts.excluded(), "excluded"},         {counts.draining(), "draining"},
      {counts.taints(), "without a taint"},    {counts.no_lora_replica(), "without the adapter"},
      {counts.overloaded(), "overloaded"},     {counts.ejected(), "ejected"},
      {counts.other_role(), "of another role"}};
  std::string list;
  for (const auto& [count, name] : reasons) {
    if (count > 0) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, name);
  }
  std::string text = fmt::format("\nFiltered out: {}.\n", list);
  if (r.filtered_targets().empty()) return text;
  Table table({"TARGET", "OVERLAP", "WHY"});
  for (const v1::FilteredTarget& filtered : r.filtered_targets()) {
    table.AddRow({TargetText(filtered.target()), Number(filtered.device_overlap_blocks()),
                  std::string(FilterText(filtered.reason()))});
  }
  text += table.Text();
  const auto listed = static_cast<uint64_t>(r.filtered_targets_size());
  if (total > listed) text += fmt::format("and {} more\n", total - listed);
  return text;
}

// Session, gate, migration and legs, a line each where there is one.
std::string PlanLines(const v1::RouteResponse& r) {
  std::string text;
  if (r.has_session()) {
    text += fmt::format(
        "Session: {} ({}), {}.\n",
        r.session().derived_name().empty() ? "named by the caller" : r.session().derived_name(),
        r.session().source(), r.session().outcome());
  }
  if (r.has_gate()) text += fmt::format("Gate: {}.\n", r.gate().text());
  if (!r.prefill_refused().empty())
    text += fmt::format("No prefill leg all the same: {}.\n", r.prefill_refused());
  if (r.has_migration()) text += fmt::format("Migration: {}.\n", r.migration().text());
  if (r.legs_size() < 2) return text;
  text += "Legs:";
  for (const v1::Leg& leg : r.legs()) {
    text += fmt::format("{} {} on {}", &leg == &r.legs(0) ? "" : ",",
                        EnumText(v1::LegKind_Name(leg.kind()), "LEG_KIND_"),
                        leg.has_target() ? TargetText(leg.target()) : "a target still to pick");
  }
  return text + ".\n";
}

}  // namespace

std::string ExplainText(const v1::ExplainResponse& response) {
  const v1::RouteResponse& r = response.decision();
  std::string text =
      fmt::format("Request {} went to worker {} rank {} ({}): {}.\n", r.request_id(),
                  r.target().worker_id(), r.target().dp_rank(), r.address(), WhyText(r));
  text += fmt::format("Decided {} ago; its booking {}.\n", AgeText(response.age_seconds()),
                      response.live() ? "is live" : "has ended");
  return text + CacheText(r) + PlanLines(r) + "\n" + CandidatesText(r) + FilteredText(r);
}

}  // namespace kvrouter::ctl
