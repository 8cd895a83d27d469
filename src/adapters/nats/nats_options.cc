#include "adapters/nats/nats_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "adapters/nats/nkey.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

constexpr int kMaxPingsOut = 2;

std::string_view AfterScheme(std::string_view server) {
  const size_t scheme = server.find("://");
  return scheme == std::string_view::npos ? server : server.substr(scheme + 3);
}

// Collects the first refusal of a row of option calls.
class Setter {
 public:
  void operator()(std::string_view setting, natsStatus status) {
    if (status == NATS_OK || !refusal_.ok()) return;
    refusal_ = absl::InvalidArgumentError(fmt::format("{}: {}", setting, NatsErrorText(status)));
  }
  const absl::Status& refusal() const { return refusal_; }

 private:
  absl::Status refusal_;
};

natsStatus SignNonce(char** error_text, unsigned char** signature, int* signature_length,
                     const char* nonce, void* closure) {
  *error_text = nullptr;
  return nats_Sign(static_cast<const char*>(closure), nonce, signature, signature_length);
}

absl::Status SetCredentials(const NatsEventSourceConfig& config, natsOptions* options) {
  Setter set;
  if (!config.username.empty()) {
    set("nats_auth_username",
        natsOptions_SetUserInfo(options, config.username.c_str(), config.password.c_str()));
  }
  if (!config.token.empty())
    set("nats_auth_token", natsOptions_SetToken(options, config.token.c_str()));
  if (!config.nkey_seed.empty()) {
    const auto key = NkeyPublicKey(config.nkey_seed);
    if (!key.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("nats_auth_nkey: {}", std::string(key.status().message())));
    }
    set("nats_auth_nkey", natsOptions_SetNKey(options, key->c_str(), &SignNonce,
                                              const_cast<char*>(config.nkey_seed.c_str())));
  }
  if (!config.credentials_file.empty()) {
    // The library would read it at the first connection only.
    if (!std::ifstream(config.credentials_file)) {
      return absl::InvalidArgumentError(
          fmt::format("nats_auth_credentials_file: cannot read {}", config.credentials_file));
    }
    set("nats_auth_credentials_file",
        natsOptions_SetUserCredentialsFromFiles(options, config.credentials_file.c_str(), nullptr));
  }
  return set.refusal();
}

absl::Status SetTls(const NatsEventSourceConfig& config, const std::string& server,
                    natsOptions* options) {
  const bool wanted =
      !config.tls_ca_cert_path.empty() || config.tls_insecure || server.starts_with("tls://");
  if (!wanted) return absl::OkStatus();
  Setter set;
  set("nats_server", natsOptions_SetSecure(options, true));
  if (!config.tls_ca_cert_path.empty()) {
    set("nats_tls_ca_cert_path",
        natsOptions_LoadCATrustedCertificates(options, config.tls_ca_cert_path.c_str()));
  }
  if (config.tls_insecure) {
    set("nats_tls_insecure", natsOptions_SkipServerVerification(options, true));
  } else {
    set("nats_server", natsOptions_SetExpectedHostname(options, NatsHost(server).c_str()));
  }
  return set.refusal();
}

}  // namespace

std::string NatsErrorText(natsStatus status) {
  natsStatus last = NATS_OK;
  const char* const detail = nats_GetLastError(&last);
  if (last == status && detail != nullptr && *detail != '\0') return detail;
  return natsStatus_GetText(status);
}

std::string NatsHost(std::string_view server) {
  std::string_view rest = AfterScheme(server);
  rest = rest.substr(rest.rfind('@') + 1);
  if (rest.starts_with('[')) return std::string(rest.substr(1, rest.find(']') - 1));
  return std::string(rest.substr(0, rest.find_first_of(":/")));
}

std::string WithoutCredentials(std::string_view server) {
  const std::string_view rest = AfterScheme(server);
  const size_t at = rest.rfind('@');
  if (at == std::string_view::npos) return std::string(server);
  return fmt::format("{}{}", server.substr(0, server.size() - rest.size()), rest.substr(at + 1));
}

absl::StatusOr<NatsOptionsPtr> MakeNatsOptions(const NatsEventSourceConfig& config,
                                               const std::string& server) {
  natsOptions* raw = nullptr;
  if (natsOptions_Create(&raw) != NATS_OK) return absl::ResourceExhaustedError("no NATS options");
  NatsOptionsPtr options(raw, &natsOptions_Destroy);
  Setter set;
  set("nats_server", natsOptions_SetURL(raw, server.c_str()));
  set("nats_server", natsOptions_SetName(raw, "kvrouterd"));
  set("nats_server", natsOptions_SetTimeout(raw, kNatsConnectTimeout.count()));
  set("nats_server", natsOptions_SetAllowReconnect(raw, false));
  set("nats_server", natsOptions_SetPingInterval(raw, config.ping_interval.count()));
  set("nats_server", natsOptions_SetMaxPingsOut(raw, kMaxPingsOut));
  set("nats_server", natsOptions_SetIgnoreDiscoveredServers(raw, true));
  if (!set.refusal().ok()) return set.refusal();
  KVR_RETURN_IF_ERROR(SetCredentials(config, raw));
  KVR_RETURN_IF_ERROR(SetTls(config, server, raw));
  return options;
}

}  // namespace kvrouter
