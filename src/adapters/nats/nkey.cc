#include "adapters/nats/nkey.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace kvrouter {
namespace {

// A seed is base32 of: S and the kind of key in two bytes of five bits each at the top, the 32
// secret bytes, a checksum. A public key is the same with one byte of kind.
constexpr size_t kSecretBytes = 32;
constexpr size_t kSeedBytes = 2 + kSecretBytes + 2;
constexpr uint8_t kSeedPrefix = 18 << 3;  // 'S'
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

std::optional<std::string> DecodeBase32(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 5) | static_cast<uint32_t>(value);
    bit_count += 5;
    if (bit_count < 8) continue;
    bit_count -= 8;
    bytes.push_back(static_cast<char>(bits >> bit_count));
    bits &= (1u << bit_count) - 1;
  }
  return bytes;
}

std::string EncodeBase32(std::string_view bytes) {
  std::string text;
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    bit_count += 8;
    while (bit_count >= 5) {
      bit_count -= 5;
      text.push_back(kAlphabet[(bits >> bit_count) & 31]);
    }
    bits &= (1u << bit_count) - 1;
  }
  if (bit_count > 0) text.push_back(kAlphabet[(bits << (5 - bit_count)) & 31]);
  return text;
}

// CRC-16/XMODEM, appended with its low byte first.
std::string Checksum(std::string_view bytes) {
  uint32_t crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 0x8000) != 0 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return {static_cast<char>(crc & 0xff), static_cast<char>(crc >> 8)};
}

std::optional<std::string> Ed25519PublicKey(std::string_view secret) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                   reinterpret_cast<const unsigned char*>(secret.data()),
                                   secret.size()),
      &EVP_PKEY_free);
  std::array<unsigned char, kSecretBytes> bytes{};
  size_t length = bytes.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), bytes.data(), &length) != 1)
    return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes.data()), length);
}

}  // namespace

absl::StatusOr<std::string> NkeyPublicKey(std::string_view seed) {
  const auto decoded = DecodeBase32(seed);
  const bool whole =
      decoded && decoded->size() == kSeedBytes &&
      (static_cast<uint8_t>((*decoded)[0]) & 0xf8) == kSeedPrefix &&
      Checksum(decoded->substr(0, kSeedBytes - 2)) == decoded->substr(kSeedBytes - 2);
  if (!whole) return absl::InvalidArgumentError("not the seed of an nkey (SU...)");
  const auto first = static_cast<uint8_t>((*decoded)[0]);
  const auto second = static_cast<uint8_t>((*decoded)[1]);
  std::string key(1, static_cast<char>(((first & 7) << 5) | (second >> 3)));
  const auto public_bytes = Ed25519PublicKey(std::string_view(*decoded).substr(2, kSecretBytes));
  if (!public_bytes) return absl::InternalError("no ed25519 here");
  key += *public_bytes;
  return EncodeBase32(key + Checksum(key));
}

}  // namespace kvrouter
