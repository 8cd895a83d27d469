#include "adapters/tls/tls_files.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "adapters/tls/tls_context.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Unusable(const TlsFile& file, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("{}: \"{}\" {}", file.setting, file.path, why));
}

// What OpenSSL says of a file that is not there is of little help.
absl::Status CheckReadable(const TlsFile& file) {
  std::FILE* const opened = std::fopen(file.path.c_str(), "re");
  if (opened == nullptr)
    return Unusable(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  char byte = 0;
  errno = 0;
  const bool any = std::fread(&byte, 1, 1, opened) == 1;
  const int error = errno;
  std::fclose(opened);
  if (any) return absl::OkStatus();
  if (error == 0) return Unusable(file, "is empty");
  return Unusable(file, fmt::format("cannot be read: {}", std::strerror(error)));
}

absl::Status CheckIdentity(const TlsFile& certificate, const TlsFile& key) {
  KVR_RETURN_IF_ERROR(CheckReadable(certificate));
  KVR_RETURN_IF_ERROR(CheckReadable(key));
  KVR_ASSIGN_OR_RETURN(const TlsContextPtr context, NewTlsContext(TLS_method()));
  KVR_ASSIGN_OR_RETURN(const TlsContextPtr without_certificate, NewTlsContext(TLS_method()));
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.path.c_str()) != 1) {
    return Unusable(certificate,
                    fmt::format("holds no usable certificate (PEM): {}", TakeTlsError()));
  }
  if (SSL_CTX_use_PrivateKey_file(without_certificate.get(), key.path.c_str(), SSL_FILETYPE_PEM) !=
      1) {
    return Unusable(key, fmt::format("holds no usable private key (PEM, without a pass phrase): {}",
                                     TakeTlsError()));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.path.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Unusable(key, fmt::format("does not belong to the certificate of {}, \"{}\": {}",
                                     certificate.setting, certificate.path, TakeTlsError()));
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorities(const TlsFile& authorities) {
  KVR_RETURN_IF_ERROR(CheckReadable(authorities));
  KVR_ASSIGN_OR_RETURN(const TlsContextPtr context, NewTlsContext(TLS_method()));
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context.get(), authorities.path.c_str(), nullptr) == 1)
    return absl::OkStatus();
  return Unusable(authorities,
                  fmt::format("holds no usable certificate (PEM): {}", TakeTlsError()));
}

}  // namespace

absl::Status CheckTlsPair(const TlsFiles& files) {
  const TlsFile& certificate = files.certificate;
  const TlsFile& key = files.key;
  if (certificate.path.empty() == key.path.empty()) return absl::OkStatus();
  const TlsFile& named = key.path.empty() ? certificate : key;
  const TlsFile& missing = key.path.empty() ? key : certificate;
  return Unusable(named, fmt::format("needs {}, which is empty", missing.setting));
}

absl::Status CheckTlsFiles(const TlsFiles& files) {
  KVR_RETURN_IF_ERROR(CheckTlsPair(files));
  if (!files.certificate.path.empty())
    KVR_RETURN_IF_ERROR(CheckIdentity(files.certificate, files.key));
  return files.authorities.path.empty() ? absl::OkStatus() : CheckAuthorities(files.authorities);
}

}  // namespace kvrouter
