#ifndef KVROUTER_TESTS_INTEGRATION_ZMQ_ENGINE_PROCESS_H_
#define KVROUTER_TESTS_INTEGRATION_ZMQ_ENGINE_PROCESS_H_

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

extern char** environ;

namespace kvrouter {

// fake_engine.py as a child. It ends when its standard input closes, so it cannot outlive the test.
class EngineProcess {
 public:
  using Json = nlohmann::json;

  EngineProcess() {
    std::array<int, 2> in{}, out{};
    if (pipe(in.data()) != 0 || pipe(out.data()) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    for (const int fd : {in[0], in[1], out[0], out[1]})
      posix_spawn_file_actions_addclose(&actions, fd);
    std::string program = "/usr/bin/python3", script = "tests/integration/zmq/fake_engine.py";
    std::array<char*, 3> argv = {program.data(), script.data(), nullptr};
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_child_ = in[1];
    from_child_ = out[0];
    if (error != 0) throw std::runtime_error("cannot start " + program);
  }
  ~EngineProcess() { Kill(); }
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // The process dies without a word.
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
    close(to_child_);
    close(from_child_);
  }

  // Runs one command; throws when the answer does not come within `deadline`.
  Json Call(const std::string& op, Json arguments = Json::object(),
            std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    arguments["op"] = op;
    const std::string line = arguments.dump() + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = write(to_child_, line.data() + sent, line.size() - sent);
      if (n <= 0) throw std::runtime_error("fake engine is gone");
      sent += static_cast<size_t>(n);
    }
    const auto until = std::chrono::steady_clock::now() + deadline;
    while (buffered_.find('\n') == std::string::npos) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      pollfd item{from_child_, POLLIN, 0};
      if (left.count() <= 0 || poll(&item, 1, static_cast<int>(left.count())) <= 0) {
        throw std::runtime_error("no answer from the fake engine to " + op);
      }
      std::array<char, 4096> chunk;
      const ssize_t n = read(from_child_, chunk.data(), chunk.size());
      if (n <= 0) throw std::runtime_error("fake engine is gone");
      buffered_.append(chunk.data(), static_cast<size_t>(n));
    }
    const size_t end = buffered_.find('\n');
    const Json answer = Json::parse(buffered_.substr(0, end));
    buffered_.erase(0, end + 1);
    return answer;
  }

 private:
  pid_t pid_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string buffered_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ZMQ_ENGINE_PROCESS_H_
