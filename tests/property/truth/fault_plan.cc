#include "property/truth/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "property/truth/dice.h"

namespace kvrouter::truth {
namespace {

struct KindRow {
  std::string_view name;
  uint32_t weight = 1;
  int64_t low = 0;
  int64_t high = 0;
  std::string_view unit;
};

// In the order of FaultKind.
constexpr KindRow kRows[kFaultKinds] = {
    {"lose live messages", 12, 1, 6, ""},   {"mangle live messages", 3, 1, 2, ""},
    {"repeat live messages", 3, 1, 8, ""},  {"stall live messages", 2, 50, 2000, "ms"},
    {"break connection", 5, 0, 2000, "ms"}, {"spoil next replay", 6, 1, 6, "th way"},
    {"hold replays", 1, 100, 3000, "ms"},   {"restart engine", 3, 0, 2000, "ms"},
    {"restart publisher", 2, 0, 500, "ms"}, {"reset cache", 1, 0, 0, ""},
    {"step clock", 2, -3600, 3600, "s"},    {"flap worker", 2, 0, 1500, "ms"},
    {"move worker", 2, 0, 500, "ms"},       {"save router", 2, 0, 0, ""},
    {"restart router", 1, 0, 500, "ms"},    {"restart router from its snapshot", 2, 0, 500, "ms"},
};

FaultKind RandomKind(Dice* dice) {
  uint32_t total = 0;
  for (const KindRow& row : kRows) total += row.weight;
  uint32_t left = dice->Below(total);
  uint8_t kind = 0;
  while (left >= kRows[kind].weight) left -= kRows[kind++].weight;
  return static_cast<FaultKind>(kind);
}

}  // namespace

FaultPlan RandomPlan(uint64_t seed, uint32_t ranks, MonotonicTime length) {
  Dice dice(seed);
  FaultPlan plan;
  const uint32_t faults = dice.Chance(0.2) ? 40 + dice.Below(60) : 5 + dice.Below(20);
  // Trouble comes to some ranks more than to others.
  const uint32_t unlucky = dice.Below(ranks);
  for (uint32_t i = 0; i < faults; ++i) {
    const FaultKind kind = RandomKind(&dice);
    const KindRow& row = kRows[static_cast<size_t>(kind)];
    plan.push_back({.at = dice.Between({}, length),
                    .kind = kind,
                    .rank = dice.Chance(0.4) ? unlucky : dice.Below(ranks),
                    .amount = row.low + dice.Below(static_cast<uint32_t>(row.high - row.low + 1))});
  }
  std::stable_sort(plan.begin(), plan.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

std::string Describe(const FaultPlan& plan) {
  std::string text;
  for (const Fault& fault : plan) {
    const KindRow& row = kRows[static_cast<size_t>(fault.kind)];
    text += fmt::format("  {:>9.3f} s  rank {}: {} {}{}\n",
                        static_cast<double>(fault.at.count()) * 1e-9, fault.rank, row.name,
                        fault.amount, row.unit);
  }
  return text;
}

FaultPlan Shorten(FaultPlan plan, const std::function<bool(const FaultPlan&)>& fails,
                  uint32_t trials) {
  for (size_t chunk = (plan.size() + 1) / 2; chunk > 0; chunk /= 2) {
    for (size_t begin = 0; begin < plan.size() && trials > 0;) {
      FaultPlan shorter = plan;
      const size_t end = std::min(begin + chunk, plan.size());
      shorter.erase(shorter.begin() + static_cast<int64_t>(begin),
                    shorter.begin() + static_cast<int64_t>(end));
      --trials;
      if (fails(shorter)) {
        plan = std::move(shorter);
      } else {
        begin = end;
      }
    }
  }
  return plan;
}

}  // namespace kvrouter::truth
