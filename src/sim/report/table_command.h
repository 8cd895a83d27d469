#ifndef KVROUTER_SIM_REPORT_TABLE_COMMAND_H_
#define KVROUTER_SIM_REPORT_TABLE_COMMAND_H_

namespace kvrouter::sim {

// `kvrouter-sim table FILE… [--json FILE]`: one table out of the JSON files of several runs.
// argv[0] is the command's name. Returns the exit code.
int RunTableCommand(int argc, char** argv);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_REPORT_TABLE_COMMAND_H_
