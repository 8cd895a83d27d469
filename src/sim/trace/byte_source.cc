#include "sim/trace/byte_source.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace kvrouter::sim {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;

class FileSource final : public ByteSource {
 public:
  explicit FileSource(std::FILE* file) : file_(file), chunk_(kChunkBytes) {}
  ~FileSource() override { std::fclose(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<std::string_view> Next() override {
    if (peeked_) return *std::exchange(peeked_, std::nullopt);
    const size_t bytes = std::fread(chunk_.data(), 1, chunk_.size(), file_);
    if (bytes == 0 && std::ferror(file_) != 0) return absl::DataLossError("read error");
    return std::string_view(chunk_.data(), bytes);
  }

  // The first chunk, which Next() will return again: also pipes can be read.
  absl::StatusOr<std::string_view> Peek() {
    KVR_ASSIGN_OR_RETURN(peeked_, Next());
    return *peeked_;
  }

 private:
  std::FILE* file_;
  std::vector<char> chunk_;
  std::optional<std::string_view> peeked_;
};

// gzip, also several members one after the other.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> input)
      : input_(std::move(input)), chunk_(kChunkBytes) {
    initialised_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  ~GzipSource() override {
    if (initialised_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<std::string_view> Next() override {
    if (!initialised_) return absl::InternalError("zlib did not start");
    while (true) {
      if (stream_.avail_in == 0) {
        KVR_ASSIGN_OR_RETURN(const std::string_view input, input_->Next());
        if (input.empty()) {
          if (!member_ended_) return absl::DataLossError("gzip data ends in the middle");
          return std::string_view();
        }
        // zlib's interface is not const-correct; it does not write here.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
        stream_.avail_in = static_cast<uInt>(input.size());
      }
      if (member_ended_) {
        inflateReset(&stream_);
        member_ended_ = false;
      }
      stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
      stream_.avail_out = static_cast<uInt>(chunk_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        member_ended_ = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return absl::DataLossError(
            fmt::format("broken gzip data: {}", stream_.msg != nullptr ? stream_.msg : "unknown"));
      }
      const size_t bytes = chunk_.size() - stream_.avail_out;
      if (bytes > 0) return std::string_view(chunk_.data(), bytes);
    }
  }

 private:
  std::unique_ptr<ByteSource> input_;
  std::vector<char> chunk_;
  z_stream stream_{};
  bool initialised_ = false;
  bool member_ended_ = false;
};

class XzSource final : public ByteSource {
 public:
  explicit XzSource(std::unique_ptr<ByteSource> input)
      : input_(std::move(input)), chunk_(kChunkBytes) {
    initialised_ = lzma_stream_decoder(&stream_, std::numeric_limits<uint64_t>::max(),
                                       LZMA_CONCATENATED) == LZMA_OK;
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  absl::StatusOr<std::string_view> Next() override {
    if (!initialised_) return absl::InternalError("liblzma did not start");
    while (!ended_) {
      if (stream_.avail_in == 0 && !input_ended_) {
        KVR_ASSIGN_OR_RETURN(const std::string_view input, input_->Next());
        input_ended_ = input.empty();
        stream_.next_in = reinterpret_cast<const uint8_t*>(input.data());
        stream_.avail_in = input.size();
      }
      stream_.next_out = reinterpret_cast<uint8_t*>(chunk_.data());
      stream_.avail_out = chunk_.size();
      const lzma_ret code = lzma_code(&stream_, input_ended_ ? LZMA_FINISH : LZMA_RUN);
      if (code == LZMA_STREAM_END) {
        ended_ = true;
      } else if (code == LZMA_BUF_ERROR && input_ended_) {
        return absl::DataLossError("xz data ends in the middle");
      } else if (code != LZMA_OK && code != LZMA_BUF_ERROR) {
        return absl::DataLossError(fmt::format("broken xz data: liblzma code {}", code));
      }
      const size_t bytes = chunk_.size() - stream_.avail_out;
      if (bytes > 0) return std::string_view(chunk_.data(), bytes);
    }
    return std::string_view();
  }

 private:
  std::unique_ptr<ByteSource> input_;
  std::vector<char> chunk_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool initialised_ = false;
  bool input_ended_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(fmt::format("cannot open: {}", std::strerror(errno)));
  }
  auto source = std::make_unique<FileSource>(file);
  KVR_ASSIGN_OR_RETURN(const std::string_view head, source->Peek());
  if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipSource>(std::move(source));
  if (head.starts_with(std::string_view("\xfd\x37zXZ\0", 6))) {
    return std::make_unique<XzSource>(std::move(source));
  }
  return source;
}

}  // namespace kvrouter::sim
