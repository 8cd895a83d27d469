#ifndef KVROUTER_SIM_WIRE_ENGINE_COMMAND_H_
#define KVROUTER_SIM_WIRE_ENGINE_COMMAND_H_

namespace kvrouter::sim {

// `kvrouter-sim engine …`: serves simulated vLLM engines until SIGTERM or SIGINT. argv[0] is the
// command's name. Returns the exit code. REQUIRES: no other thread runs yet (signals are masked for
// all).
int RunEngineCommand(int argc, char** argv);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_ENGINE_COMMAND_H_
