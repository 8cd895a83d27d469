#ifndef KVROUTER_SIM_VIRTUAL_POLICY_TABLE_H_
#define KVROUTER_SIM_VIRTUAL_POLICY_TABLE_H_

#include <span>
#include <string>

#include "sim/virtual/simulation.h"

namespace kvrouter::sim {

// One line a policy, with a header line. Columns are those of PolicyFigures.
std::string FormatTable(std::span<const PolicyFigures> rows);

// The sums behind the ratios, a line a policy: what runs with exact counts are checked by.
std::string FormatSums(std::span<const PolicyFigures> rows);

// Of runs with a migration planner: what it said and what came of it, and from how many tokens on
// migration is assumed to pay, by the settings, and does. Empty if no row has one.
std::string FormatMoves(std::span<const PolicyFigures> rows, const SimulationConfig& config);

// An array with one object a policy, as `kvrouter-sim table` reads them: trace, policy, mode
// ("virtual"), the same columns in full precision, and under "details" the sums of the first run.
std::string FormatJson(const Trace& trace, std::span<const PolicyFigures> rows);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_POLICY_TABLE_H_
