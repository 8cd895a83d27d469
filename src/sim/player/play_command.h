#ifndef KVROUTER_SIM_PLAYER_PLAY_COMMAND_H_
#define KVROUTER_SIM_PLAYER_PLAY_COMMAND_H_

namespace kvrouter::sim {

// `kvrouter-sim play TRACE …`: plays a trace against a running kvrouterd and the engines it lists,
// and prints the row of figures. argv[0] is the command's name. Exit code 1 when anything failed.
int RunPlayCommand(int argc, char** argv);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_PLAY_COMMAND_H_
