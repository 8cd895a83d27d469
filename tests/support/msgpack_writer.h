#ifndef KVROUTER_TESTS_SUPPORT_MSGPACK_WRITER_H_
#define KVROUTER_TESTS_SUPPORT_MSGPACK_WRITER_H_

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter {

// Writes msgpack for tests, in the shortest encodings as engines' encoders do.
//   MsgpackWriter().Array(2).Float(1.5).Array(0).bytes()
class MsgpackWriter {
 public:
  MsgpackWriter& Nil() { return Byte(0xc0); }

  MsgpackWriter& Uint(uint64_t value) {
    if (value < 0x80) return Byte(static_cast<uint8_t>(value));
    if (value <= 0xff) return Byte(0xcc).BigEndian(value, 1);
    if (value <= 0xffff) return Byte(0xcd).BigEndian(value, 2);
    if (value <= 0xffffffff) return Byte(0xce).BigEndian(value, 4);
    return Byte(0xcf).BigEndian(value, 8);
  }

  MsgpackWriter& Int(int64_t value) {
    if (value >= 0) return Uint(static_cast<uint64_t>(value));
    if (value >= -32) return Byte(static_cast<uint8_t>(value));
    return Byte(0xd3).BigEndian(static_cast<uint64_t>(value), 8);
  }

  MsgpackWriter& Float(double value) {
    return Byte(0xcb).BigEndian(std::bit_cast<uint64_t>(value), 8);
  }

  MsgpackWriter& Str(std::string_view text) {
    if (text.size() < 32) {
      Byte(static_cast<uint8_t>(0xa0 | text.size()));
    } else {
      Byte(0xd9).BigEndian(text.size(), 1);
    }
    bytes_.append(text);
    return *this;
  }

  MsgpackWriter& Bin(std::string_view data) {
    if (data.size() <= 0xff) {
      Byte(0xc4).BigEndian(data.size(), 1);
    } else {
      Byte(0xc6).BigEndian(data.size(), 4);
    }
    bytes_.append(data);
    return *this;
  }

  MsgpackWriter& Array(size_t count) {
    return count < 16 ? Byte(static_cast<uint8_t>(0x90 | count)) : Byte(0xdc).BigEndian(count, 2);
  }
  MsgpackWriter& Map(size_t count) {
    return count < 16 ? Byte(static_cast<uint8_t>(0x80 | count)) : Byte(0xde).BigEndian(count, 2);
  }

  template <typename T>
  MsgpackWriter& UintArray(const std::vector<T>& values) {
    Array(values.size());
    for (const T value : values) Uint(static_cast<uint64_t>(value));
    return *this;
  }

  MsgpackWriter& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  MsgpackWriter& Byte(uint8_t value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  MsgpackWriter& BigEndian(uint64_t value, int width) {
    for (int i = width - 1; i >= 0; --i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }

  std::string bytes_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_MSGPACK_WRITER_H_
