#ifndef KVROUTER_SIM_VIRTUAL_VIRTUAL_COMMAND_H_
#define KVROUTER_SIM_VIRTUAL_VIRTUAL_COMMAND_H_

namespace kvrouter::sim {

// kvrouter-sim --virtual TRACE --block-size N [options]: the policy table of a trace, in virtual
// time. Returns the exit code: 0, or 1 after one line on stderr.
int RunVirtualCommand(int argc, const char* const* argv);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_VIRTUAL_COMMAND_H_
