#ifndef KVROUTER_TESTS_INTEGRATION_ZMQ_RAW_PEER_H_
#define KVROUTER_TESTS_INTEGRATION_ZMQ_RAW_PEER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kvrouter {

// A TCP peer that behaves badly: says nothing, or passes on what a real one says, from some byte on
// at one byte a second. On a thread of its own.
class RawPeer {
 public:
  // `upstream` 0: accepts, reads, says nothing. Else a port of the loopback; of its bytes to each
  // client the first `free_bytes` pass at once.
  explicit RawPeer(uint16_t upstream = 0, size_t free_bytes = SIZE_MAX)
      : upstream_(upstream), free_bytes_(free_bytes) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("raw peer: cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Turn();
      for (const Link& link : links_) Close(link);
      close(listener_);
    });
  }

  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  // Connections that the other side has not closed.
  int open_connections() const { return open_; }
  int accepted() const { return accepted_; }

  static uint16_t PortOf(const std::string& endpoint) {
    return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  }

 private:
  struct Link {
    int client = -1;
    int server = -1;  // -1: none
    size_t passed_bytes = 0;
    std::string held_back;
    std::chrono::steady_clock::time_point next_byte_at{};
  };

  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static void Close(const Link& link) {
    close(link.client);
    if (link.server >= 0) close(link.server);
  }
  static void SendAll(int fd, const char* data, size_t size) {
    for (size_t sent = 0; sent < size;) {
      const ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }

  void Turn() {
    std::vector<pollfd> items = {{listener_, POLLIN, 0}};
    for (const Link& link : links_) {
      items.push_back({link.client, POLLIN, 0});
      items.push_back({link.server, POLLIN, 0});  // negative: passed over
    }
    poll(items.data(), items.size(), 10);
    for (size_t i = 0; i < links_.size(); ++i) {
      Link& link = links_[i];
      bool alive = items[1 + 2 * i].revents == 0 || FromClient(&link);
      if (alive && items[2 + 2 * i].revents != 0) alive = FromServer(&link);
      if (alive) Drip(&link);
      if (alive) continue;
      Close(link);
      link.client = -1;
      --open_;
    }
    std::erase_if(links_, [](const Link& link) { return link.client < 0; });
    if (items[0].revents != 0) Accept();
  }
  void Accept() {
    Link link{.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), .held_back = {}};
    if (link.client < 0) return;
    if (upstream_ != 0) {
      link.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(upstream_);
      if (connect(link.server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return Close(link);
      }
    }
    links_.push_back(link);
    ++accepted_;
    ++open_;
  }
  bool FromClient(Link* link) {
    std::array<char, 65536> chunk;
    const ssize_t n = recv(link->client, chunk.data(), chunk.size(), 0);
    if (n <= 0) return false;
    if (link->server >= 0) SendAll(link->server, chunk.data(), static_cast<size_t>(n));
    return true;
  }
  bool FromServer(Link* link) {
    std::array<char, 65536> chunk;
    const ssize_t n = recv(link->server, chunk.data(), chunk.size(), 0);
    if (n <= 0) return false;
    link->held_back.append(chunk.data(), static_cast<size_t>(n));
    const size_t now = std::min(link->held_back.size(), free_bytes_ - link->passed_bytes);
    SendAll(link->client, link->held_back.data(), now);
    link->passed_bytes += now;
    link->held_back.erase(0, now);
    return true;
  }
  static void Drip(Link* link) {
    const auto now = std::chrono::steady_clock::now();
    if (link->held_back.empty() || now < link->next_byte_at) return;
    SendAll(link->client, link->held_back.data(), 1);
    link->held_back.erase(0, 1);
    link->next_byte_at = now + std::chrono::seconds(1);
  }

  const uint16_t upstream_;
  const size_t free_bytes_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> open_{0};
  std::atomic<int> accepted_{0};
  std::vector<Link> links_;  // the thread's own
  std::jthread thread_;
};

// A port that refuses: bound, never listening.
class RefusingPort {
 public:
  RefusingPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("refusing port: cannot bind");
    }
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~RefusingPort() { close(fd_); }
  RefusingPort(const RefusingPort&) = delete;
  RefusingPort& operator=(const RefusingPort&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  int fd_;
  std::string endpoint_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ZMQ_RAW_PEER_H_
