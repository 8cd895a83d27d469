#ifndef KVROUTER_BASE_BYTE_CODEC_H_
#define KVROUTER_BASE_BYTE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace kvrouter {

// Appends numbers and texts to bytes. Thread-compatible.
class ByteWriter {
 public:
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }
  void Byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  // LEB128.
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Word(uint64_t value) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    bytes_.append(raw, sizeof(raw));
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads them back. After a failed read everything reads as 0 or empty, so a caller checks once, at
// the end, and before it trusts a count. Thread-compatible.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }
  void Fail() {
    ok_ = false;
    rest_ = {};
  }

  uint8_t Byte() {
    const std::string_view byte = Bytes(1);
    return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
  }
  uint64_t Number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  // At most `max`.
  uint64_t NumberUpTo(uint64_t max) {
    const uint64_t value = Number();
    if (value <= max) return value;
    Fail();
    return 0;
  }
  uint64_t Word() {
    uint64_t value = 0;
    const std::string_view raw = Bytes(sizeof(value));
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(value));
    return value;
  }
  // A number of items that take at least `item_bytes` each and are still to come.
  size_t Count(size_t item_bytes) { return NumberUpTo(rest_.size() / item_bytes); }
  std::string Text() { return std::string(Bytes(NumberUpTo(rest_.size()))); }

 private:
  std::string_view Bytes(size_t count) {
    if (count > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace kvrouter

#endif  // KVROUTER_BASE_BYTE_CODEC_H_
