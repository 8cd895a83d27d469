#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "sim/player/play_command.h"
#include "sim/report/table_command.h"
#include "sim/virtual/virtual_command.h"
#include "sim/wire/engine_command.h"

namespace {

struct Command {
  std::string_view name;
  std::string_view what;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands = {
    Command{"engine", "serve simulated vLLM engines on real wires",
            kvrouter::sim::RunEngineCommand},
    Command{"play", "play a trace against a running kvrouterd and its engines",
            kvrouter::sim::RunPlayCommand},
    Command{"table", "print the rows of several runs as one table", kvrouter::sim::RunTableCommand},
};

void PrintUsage(std::FILE* out) {
  fmt::print(out,
             "usage: kvrouter-sim COMMAND [options]\n"
             "       kvrouter-sim --virtual TRACE --block-size N [options]\n\n");
  for (const Command& command : kCommands) {
    fmt::print(out, "  {:<10} {}\n", command.name, command.what);
  }
  fmt::print(out, "  {:<10} {}\n", "--virtual", "route a trace over a fleet in virtual time");
  fmt::print(out, "\nkvrouter-sim COMMAND --help lists the options of one.\n");
}

// The one command without a name of its own; its options come in any order.
bool IsVirtual(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--virtual" || argument.starts_with("--virtual=")) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
  }
  if (IsVirtual(argc, argv)) return kvrouter::sim::RunVirtualCommand(argc, argv);
  if (name == "--help" || name == "-h" || name == "help") {
    PrintUsage(stdout);
    return 0;
  }
  PrintUsage(stderr);
  return 2;
}
