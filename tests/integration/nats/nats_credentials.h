#ifndef KVROUTER_TESTS_INTEGRATION_NATS_NATS_CREDENTIALS_H_
#define KVROUTER_TESTS_INTEGRATION_NATS_NATS_CREDENTIALS_H_

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvrouter {

// NATS' decentralised authentication, as its tool nsc sets it up: an operator that the server
// trusts vouches for an account, and the account for a user, in signed JWTs. Names of keys are
// base32 of a role, the public key and a check sum.

// One ed25519 key in a role.
class NatsKey {
 public:
  enum Role : uint8_t { kAccount = 0, kOperator = 14 << 3, kUser = 20 << 3 };

  explicit NatsKey(Role role) : role_(role), key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")) {
    if (key_ == nullptr) throw std::runtime_error("no ed25519 key");
  }

  std::string Name() const {
    std::string bytes(1, static_cast<char>(role_));
    std::array<uint8_t, 32> raw{};
    size_t size = raw.size();
    EVP_PKEY_get_raw_public_key(key_.get(), raw.data(), &size);
    return Checked(bytes.append(raw.begin(), raw.end()));
  }
  std::string Seed() const {
    constexpr uint8_t kSeed = 18 << 3;
    std::string bytes{static_cast<char>(kSeed | role_ >> 5), static_cast<char>((role_ & 31) << 3)};
    std::array<uint8_t, 32> raw{};
    size_t size = raw.size();
    EVP_PKEY_get_raw_private_key(key_.get(), raw.data(), &size);
    return Checked(bytes.append(raw.begin(), raw.end()));
  }
  // A JWT that says `nats_claims` of `subject`.
  std::string Vouch(const NatsKey& subject, const std::string& nats_claims) const {
    const std::string claims = fmt::format(
        R"({{"jti":"test","iat":1700000000,"iss":"{}","name":"test","sub":"{}","nats":{}}})",
        Name(), subject.Name(), nats_claims);
    const std::string text =
        Base64Url(R"({"typ":"JWT","alg":"ed25519-nkey"})") + "." + Base64Url(claims);
    return text + "." + Base64Url(Sign(text));
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };

  std::string Sign(const std::string& text) const {
    const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
    std::array<uint8_t, 64> signature{};
    size_t size = signature.size();
    if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
        EVP_DigestSign(context.get(), signature.data(), &size,
                       reinterpret_cast<const uint8_t*>(text.data()), text.size()) != 1) {
      throw std::runtime_error("no signature");
    }
    return {signature.begin(), signature.end()};
  }

  // Five or six bits at a time, most significant first.
  static std::string Encode(std::string_view bytes, int bits, std::string_view alphabet) {
    std::string text;
    uint32_t pending = 0;
    int count = 0;
    for (const char byte : bytes) {
      pending = pending << 8 | static_cast<uint8_t>(byte);
      for (count += 8; count >= bits; count -= bits)
        text += alphabet[pending >> (count - bits) & (alphabet.size() - 1)];
    }
    if (count > 0) text += alphabet[pending << (bits - count) & (alphabet.size() - 1)];
    return text;
  }
  static std::string Base64Url(std::string_view bytes) {
    return Encode(bytes, 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
  }
  // With CRC-16/XMODEM, little-endian.
  static std::string Checked(std::string bytes) {
    uint16_t sum = 0;
    for (const char byte : bytes) {
      sum = static_cast<uint16_t>(sum ^ static_cast<uint8_t>(byte) << 8);
      for (int bit = 0; bit < 8; ++bit)
        sum = static_cast<uint16_t>(sum << 1 ^ ((sum & 0x8000) != 0 ? 0x1021 : 0));
    }
    bytes += static_cast<char>(sum & 255);
    bytes += static_cast<char>(sum >> 8);
    return Encode(bytes, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
  }

  const Role role_;
  const std::unique_ptr<EVP_PKEY, Free> key_;
};

struct NatsCredentials {
  std::string server_config;  // trusts the operator and knows the account
  std::string file;           // what a user of the account logs in with
};

inline NatsCredentials MakeNatsCredentials() {
  const NatsKey op(NatsKey::kOperator), account(NatsKey::kAccount), user(NatsKey::kUser);
  const std::string account_jwt = op.Vouch(
      account,
      R"({"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,)"
      R"("conn":-1,"leaf":-1},"type":"account","version":2})");
  const std::string user_jwt = account.Vouch(
      user, R"({"pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2})");
  const std::string op_jwt = op.Vouch(op, R"({"type":"operator","version":2})");
  return {
      .server_config =
          fmt::format("operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n", op_jwt,
                      account.Name(), account_jwt),
      .file = fmt::format("-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n"
                          "-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
                          user_jwt, user.Seed())};
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_NATS_NATS_CREDENTIALS_H_
