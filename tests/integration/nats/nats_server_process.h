#ifndef KVROUTER_TESTS_INTEGRATION_NATS_NATS_SERVER_PROCESS_H_
#define KVROUTER_TESTS_INTEGRATION_NATS_NATS_SERVER_PROCESS_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvrouter {

// A port that was free a moment ago: the server has to come back on the one it had.
inline uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

// The real nats-server, in a folder of its own, on loopback, with a configuration by file. It dies
// with the test.
class NatsServerProcess {
 public:
  NatsServerProcess() : port_(FreePort()) {
    char name[] = "/tmp/kvr-nats-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~NatsServerProcess() {
    Kill();
    std::filesystem::remove_all(directory_);
  }
  NatsServerProcess(const NatsServerProcess&) = delete;
  NatsServerProcess& operator=(const NatsServerProcess&) = delete;

  // `extra` goes into the configuration as it is.
  void Start(const std::string& extra = "") {
    const std::string config = File("server.conf");
    std::ofstream(config) << "listen: \"127.0.0.1:" << port_ << "\"\n" << extra << "\n";
    const std::string log = File("server.log");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(out, 1);
      dup2(out, 2);
      execl("/usr/sbin/nats-server", "nats-server", "-c", config.c_str(), nullptr);
      _exit(127);
    }
  }
  // As a crash.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  // Stopped in its tracks, connections open.
  void Freeze() { kill(pid_, SIGSTOP); }
  void Thaw() { kill(pid_, SIGCONT); }

  std::string Url(const std::string& credentials = "") const {
    return "nats://" + credentials + "127.0.0.1:" + std::to_string(port_);
  }
  uint16_t port() const { return port_; }
  std::string File(const std::string& name) const { return directory_ + "/" + name; }
  std::string Log() const {
    std::ifstream file(File("server.log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  const uint16_t port_;
  std::string directory_;
  pid_t pid_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_NATS_NATS_SERVER_PROCESS_H_
