#ifndef KVROUTER_DISPATCH_KV_HANDSHAKE_H_
#define KVROUTER_DISPATCH_KV_HANDSHAKE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvrouter {

// What a producer's answer says about where its blocks can be pulled (kv_transfer_params), looked
// at before another engine gets it: engines hang or stop on an incomplete one, or on one that names
// the host "localhost" of somebody else. It is passed on as it came, for its fields differ between
// versions. Pure.
struct KvHandshake {
  std::string params;  // JSON text
  uint64_t blocks = 0;
};

enum class HandshakeProblem : uint8_t { kNone, kMissing, kInvalid, kLocal };

struct HandshakeReading {
  KvHandshake handshake;
  HandshakeProblem problem = HandshakeProblem::kNone;
  std::string detail;  // of a problem: what, value
};

// `producer_url`: where the answer came from. Wanted: do_remote_prefill true, remote_engine_id and
// remote_request_id texts that say something, remote_port 1..65535, at least one block id (flat, or
// in groups), and a remote_host that is this machine's only if the producer's address is, too.
HandshakeReading ReadHandshake(const std::string& answer, std::string_view producer_url);

// "10.0.0.7" of "http://10.0.0.7:8000/x"; without the brackets of an IPv6 address.
std::string_view HostOfUrl(std::string_view url);
// localhost, 127.x.y.z, ::1, and the wildcards 0.0.0.0 and ::, which mean nothing elsewhere either.
bool IsLocalHost(std::string_view host);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_KV_HANDSHAKE_H_
