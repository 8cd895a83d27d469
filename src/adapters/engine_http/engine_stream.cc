#include "adapters/engine_http/engine_stream.h"

#include <boost/asio/error.hpp>
#include <utility>

namespace kvrouter {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

bool EngineStream::Establish() {
  ErrorCode error;
  socket_.non_blocking(true, error);
  if (error) {
    problem_ = error.message();
    return false;
  }
  ErrorCode ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  return true;
}

bool EngineStream::UseTls(std::unique_ptr<TlsSession> session) {
  tls_ = std::move(session);
  return tls_ != nullptr;
}

EngineStream::Result EngineStream::Read(std::span<char> room, size_t* bytes) {
  if (tls_ != nullptr) return tls_->Read(room, bytes);
  ErrorCode error;
  *bytes = socket_.read_some(asio::buffer(room.data(), room.size()), error);
  return Outcome(error, Result::kWantRead);
}

EngineStream::Result EngineStream::Write(std::span<const asio::const_buffer> parts, size_t* bytes) {
  if (tls_ != nullptr) {
    for (const asio::const_buffer& part : parts) {
      if (part.size() > 0) return tls_->Write(part.data(), part.size(), bytes);
    }
  }
  ErrorCode error;
  *bytes = socket_.write_some(parts, error);
  return Outcome(error, Result::kWantWrite);
}

EngineStream::Result EngineStream::Outcome(const ErrorCode& error, Result blocked) {
  if (!error) return Result::kDone;
  if (error == asio::error::would_block || error == asio::error::try_again) return blocked;
  if (error == asio::error::eof) return Result::kEnd;
  problem_ = error.message();
  return Result::kFailed;
}

void EngineStream::Close() {
  if (tls_ != nullptr) tls_->SayEnd();
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace kvrouter
