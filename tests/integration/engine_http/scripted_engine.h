#ifndef KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_SCRIPTED_ENGINE_H_
#define KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_SCRIPTED_ENGINE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace kvrouter {

// One connection as the engine sees it: blocking, byte by byte. Every wait gives up after 30 s.
class EnginePeer {
 public:
  explicit EnginePeer(int fd) : fd_(fd) {
    const timeval timeout{.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  }
  ~EnginePeer() { Close(); }
  EnginePeer(const EnginePeer&) = delete;
  EnginePeer& operator=(const EnginePeer&) = delete;

  int fd() const { return fd_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Head and announced body of the next request; empty when the other side closed first.
  std::string ReadRequest() {
    size_t head_end = std::string::npos;
    while ((head_end = read_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadSome()) return {};
    }
    size_t whole = head_end + 4;
    const size_t field = read_.find("content-length: ");
    if (field < head_end) whole += std::strtoul(read_.c_str() + field + 16, nullptr, 10);
    while (read_.size() < whole) {
      if (!ReadSome()) return {};
    }
    std::string request = read_.substr(0, whole);
    read_.erase(0, whole);
    return request;
  }

  // True once the other side has closed; false if it goes on for 30 s.
  bool WaitClosed() {
    char bytes[4096];
    while (true) {
      const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) return false;
    }
  }

  void CloseSending() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // So that the other side gets a reset.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

 private:
  bool ReadSome() {
    char bytes[65536];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got > 0) read_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  int fd_;
  std::string read_;
};

// A TCP server whose every connection runs a script on a thread of its own. It closes the
// connection when the script returns.
class ScriptedEngine {
 public:
  // `number` counts connections from 0.
  using Script = std::function<void(EnginePeer& peer, int number)>;

  explicit ScriptedEngine(Script script, int receive_buffer_bytes = 0)
      : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    listen(listener_, 1024);
    socklen_t length = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread([this] { Accept(); });
  }
  // Waits for the scripts.
  ~ScriptedEngine() {
    StopListening();
    std::vector<std::jthread> scripts;
    {
      MutexLock lock(mu_);
      scripts = std::move(scripts_);
    }
  }

  uint16_t port() const { return port_; }
  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int Connections() const { return connections_.load(); }
  // From here on connections are refused; those there are go on.
  void StopListening() {
    if (!acceptor_.joinable()) return;
    stopping_.store(true);
    acceptor_.join();
    close(listener_);
  }

 private:
  void Accept() {
    while (!stopping_.load()) {
      pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 20) <= 0) continue;
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) continue;
      const int number = connections_.fetch_add(1);
      MutexLock lock(mu_);
      scripts_.emplace_back([this, fd, number] {
        EnginePeer peer(fd);
        script_(peer, number);
      });
    }
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  Mutex mu_;
  std::vector<std::jthread> scripts_ ABSL_GUARDED_BY(mu_);
  std::jthread acceptor_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_SCRIPTED_ENGINE_H_
