#ifndef KVROUTER_ADAPTERS_TLS_TLS_SERVER_H_
#define KVROUTER_ADAPTERS_TLS_TLS_SERVER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/tls/tls_config.h"
#include "adapters/tls/tls_session.h"
#include "base/mutex.h"

struct ssl_ctx_st;

namespace kvrouter {

// What the TLS connections of a server share. Certificates expire while a server runs: when the
// files have changed, sessions that begin later use the new ones; while those cannot be used, the
// old ones stay. The files are looked at when a session begins, at most once a second.
//
// Thread safety: thread-safe.
class TlsServer {
 public:
  // Files that cannot be used are an error that names them.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Create(const TlsServerConfig& config);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  // Over a connected socket. Null when memory does not allow it.
  std::unique_ptr<TlsSession> NewSession(int socket);

  uint64_t Reloads() const { return reloads_.load(); }
  uint64_t FailedReloads() const { return failed_reloads_.load(); }

 private:
  // What tells one version of a file from another.
  struct FileVersion {
    uint64_t inode = 0;
    int64_t changed_seconds = 0;
    int64_t changed_nanoseconds = 0;
    int64_t size_bytes = 0;
    friend bool operator==(const FileVersion&, const FileVersion&) = default;
  };
  using Versions = std::array<FileVersion, 3>;

  explicit TlsServer(TlsServerConfig config);

  absl::StatusOr<ssl_ctx_st*> Load() const;
  Versions Look() const;
  // Nothing if they are as they were, or were looked at just now.
  std::optional<absl::Status> ReloadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TlsServerConfig config_;
  std::atomic<uint64_t> reloads_{0};
  std::atomic<uint64_t> failed_reloads_{0};
  Mutex mu_;
  ssl_ctx_st* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  Versions seen_ ABSL_GUARDED_BY(mu_);
  std::chrono::steady_clock::time_point looked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_SERVER_H_
