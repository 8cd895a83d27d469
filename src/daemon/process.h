#ifndef KVROUTER_DAEMON_PROCESS_H_
#define KVROUTER_DAEMON_PROCESS_H_

#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace kvrouter {

std::map<std::string, std::string> ReadEnvironment(char** environ);

// What kvrouterd does with its arguments; the exit code. `signals` end it; they are blocked in
// every thread.
int RunProcess(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment, const sigset_t& signals);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_PROCESS_H_
