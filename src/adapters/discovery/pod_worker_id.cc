#include "adapters/discovery/pod_worker_id.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kvrouter {
namespace {

struct SipState {
  // The constants of SipHash for a key of zeros.
  uint64_t v0 = 0x736f6d6570736575;
  uint64_t v1 = 0x646f72616e646f6d;
  uint64_t v2 = 0x6c7967656e657261;
  uint64_t v3 = 0x7465646279746573;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Absorb(uint64_t word) {
    v3 ^= word;
    Round();
    v0 ^= word;
  }
};

uint64_t SipHash13(std::string_view bytes) {
  SipState state;
  const size_t whole = bytes.size() / 8 * 8;
  const auto word_at = [&](size_t begin, size_t end) {
    uint64_t word = 0;
    for (size_t i = end; i > begin; --i)
      word = word << 8 | static_cast<unsigned char>(bytes[i - 1]);
    return word;
  };
  for (size_t at = 0; at < whole; at += 8) state.Absorb(word_at(at, at + 8));
  state.Absorb(word_at(whole, bytes.size()) | uint64_t{bytes.size() & 0xFF} << 56);
  state.v2 ^= 0xFF;
  for (int i = 0; i < 3; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace

WorkerId PodWorkerId(std::string_view pod_name) {
  std::string text(pod_name);
  text += '\xFF';
  return WorkerId{SipHash13(text) & 0x001FFFFFFFFFFFFF};
}

}  // namespace kvrouter
