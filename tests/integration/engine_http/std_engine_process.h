#ifndef KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_STD_ENGINE_PROCESS_H_
#define KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_STD_ENGINE_PROCESS_H_

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace kvrouter {

// std_engine.py as a child. It ends when its standard input closes, so it cannot outlive the test.
class StdEngineProcess {
 public:
  explicit StdEngineProcess(std::vector<std::string> arguments = {}) {
    std::array<int, 2> in{}, out{};
    if (pipe(in.data()) != 0 || pipe(out.data()) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    for (const int fd : {in[0], in[1], out[0], out[1]}) {
      posix_spawn_file_actions_addclose(&actions, fd);
    }
    arguments.insert(arguments.begin(),
                     {"/usr/bin/python3", "tests/integration/engine_http/std_engine.py"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_child_ = in[1];
    from_child_ = out[0];
    if (error != 0) throw std::runtime_error("cannot start the engine");
    char byte = 0;
    while (read(from_child_, &byte, 1) == 1 && byte != '\n') port_ += byte;
    if (port_.empty()) throw std::runtime_error("the engine told no port");
  }
  ~StdEngineProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(to_child_);
    close(from_child_);
  }
  StdEngineProcess(const StdEngineProcess&) = delete;
  StdEngineProcess& operator=(const StdEngineProcess&) = delete;

  const std::string& port() const { return port_; }

 private:
  pid_t pid_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string port_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_STD_ENGINE_PROCESS_H_
