#ifndef KVROUTER_TESTS_INTEGRATION_HTTP_BLOCKING_CLIENT_H_
#define KVROUTER_TESTS_INTEGRATION_HTTP_BLOCKING_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace kvrouter {

// A plain blocking TCP client: shares nothing with the server under test. Every read gives up after
// 10 s.
class BlockingClient {
 public:
  explicit BlockingClient(const std::string& address, int receive_buffer_bytes = 0) {
    const size_t colon = address.rfind(':');
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0;
  }
  ~BlockingClient() { Close(); }
  BlockingClient(const BlockingClient&) = delete;
  BlockingClient& operator=(const BlockingClient&) = delete;

  bool Connected() const { return connected_; }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void CloseSending() { shutdown(fd_, SHUT_WR); }

  // False when the server has gone.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Up to and including `mark`; what came until the connection ended if it never appears.
  std::string ReadUntil(std::string_view mark) {
    size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!Receive()) return std::exchange(buffer_, {});
    }
    std::string out = buffer_.substr(0, at + mark.size());
    buffer_.erase(0, at + mark.size());
    return out;
  }
  std::string ReadBytes(size_t count) {
    while (buffer_.size() < count && Receive()) {
    }
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, out.size());
    return out;
  }
  std::string ReadAll() {
    while (Receive()) {
    }
    return std::exchange(buffer_, {});
  }

  // One answer with a Content-Length: head and body.
  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
  };
  Answer ReadAnswer(bool head_only = false) {
    Answer answer;
    answer.head = ReadUntil("\r\n\r\n");
    if (answer.head.size() > 12) answer.status = std::stoi(answer.head.substr(9, 3));
    const size_t at = answer.head.find("Content-Length: ");
    if (at != std::string::npos && !head_only) {
      answer.body = ReadBytes(static_cast<size_t>(std::stoul(answer.head.substr(at + 16))));
    }
    return answer;
  }
  Answer Get(std::string_view path) {
    Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n\r\n");
    return ReadAnswer();
  }

 private:
  bool Receive() {
    char chunk[16384];
    const ssize_t got = recv(fd_, chunk, sizeof(chunk), 0);
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(got));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

// Polls until `condition` holds; false after 10 s.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_HTTP_BLOCKING_CLIENT_H_
