#include "adapters/grpc/listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace kvrouter {
namespace {

absl::Status Malformed(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("listen address must be HOST:PORT with a port of 0..65535, got \"{}\"", text));
}

// 0, or the errno of the step that failed.
int TryListen(const addrinfo& info) {
  const int fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (fd < 0) return errno;
  const int on = 1;
  // As gRPC binds: connections in TIME_WAIT do not count as taken. On Linux this does not share a
  // listening port.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = 0;
  if (bind(fd, info.ai_addr, info.ai_addrlen) != 0 || listen(fd, 1) != 0) error = errno;
  close(fd);
  return error;
}

}  // namespace

std::string ListenAddress::Text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Malformed(text);
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return Malformed(text);
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Malformed(text);
  }
  const std::string_view digits = text.substr(colon + 1);
  ListenAddress address{.host = std::string(host)};
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), address.port);
  if (error != std::errc() || end != digits.end()) return Malformed(text);
  return address;
}

absl::Status CheckCanListen(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int lookup =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (lookup != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot listen on {}: {}", address.Text(), gai_strerror(lookup)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  int usable = 0;
  int last_error = EADDRNOTAVAIL;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int error = TryListen(*info);
    if (error == 0) {
      ++usable;
      continue;
    }
    last_error = error;
    // A name may stand for an address family this machine lacks; anything else is a reason to
    // refuse.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) {
      usable = 0;
      break;
    }
  }
  if (usable > 0) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("cannot listen on {}: {}", address.Text(), std::strerror(last_error)));
}

}  // namespace kvrouter
