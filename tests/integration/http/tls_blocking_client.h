#ifndef KVROUTER_TESTS_INTEGRATION_HTTP_TLS_BLOCKING_CLIENT_H_
#define KVROUTER_TESTS_INTEGRATION_HTTP_TLS_BLOCKING_CLIENT_H_

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>
#include <string_view>

#include "blocking_client.h"

namespace kvrouter {

// A plain blocking TLS client of OpenSSL's own sockets: shares nothing with the server under test.
// It looks at no certificate, but keeps the server's.
class TlsBlockingClient {
 public:
  explicit TlsBlockingClient(const std::string& address, const std::string& certificate_file = "",
                             const std::string& key_file = "", int receive_buffer_bytes = 0)
      : tcp_(address, receive_buffer_bytes), context_(SSL_CTX_new(TLS_client_method())) {
    if (!certificate_file.empty()) {
      SSL_CTX_use_certificate_chain_file(context_, certificate_file.c_str());
      SSL_CTX_use_PrivateKey_file(context_, key_file.c_str(), SSL_FILETYPE_PEM);
    }
    session_ = SSL_new(context_);
    SSL_set_fd(session_, tcp_.fd());
    connected_ = tcp_.Connected() && SSL_connect(session_) == 1;
  }
  ~TlsBlockingClient() {
    SSL_free(session_);
    SSL_CTX_free(context_);
  }
  TlsBlockingClient(const TlsBlockingClient&) = delete;
  TlsBlockingClient& operator=(const TlsBlockingClient&) = delete;

  bool Connected() const { return connected_; }
  bool Send(std::string_view bytes) {
    return SSL_write(session_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  // Until the server ends the stream or `bytes` are there.
  std::string Read(size_t bytes) {
    std::string got;
    char room[16384];
    while (got.size() < bytes) {
      const size_t want = std::min(sizeof(room), bytes - got.size());
      const int read = SSL_read(session_, room, static_cast<int>(want));
      if (read <= 0) break;
      got.append(room, static_cast<size_t>(read));
    }
    return got;
  }
  std::string ReadUntil(std::string_view mark) {
    std::string got;
    char byte = 0;
    while (!got.ends_with(mark) && SSL_read(session_, &byte, 1) == 1) got += byte;
    return got;
  }
  // The server ended the stream, as opposed to the connection alone.
  bool EndedCleanly() {
    char byte = 0;
    return SSL_read(session_, &byte, 1) <= 0 &&
           (SSL_get_shutdown(session_) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  // Of the server's certificate.
  std::string SerialNumber() const {
    X509* certificate = SSL_get1_peer_certificate(session_);
    BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
    char* text = BN_bn2hex(number);
    std::string serial = text;
    OPENSSL_free(text);
    BN_free(number);
    X509_free(certificate);
    return serial;
  }

 private:
  BlockingClient tcp_;
  SSL_CTX* context_;
  SSL* session_ = nullptr;
  bool connected_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_HTTP_TLS_BLOCKING_CLIENT_H_
