#ifndef KVROUTER_FEED_MSGPACK_CURSOR_H_
#define KVROUTER_FEED_MSGPACK_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvrouter {

// Walks msgpack bytes from outside without building an object tree. Every read checks bounds; an
// announced length is believed only as far as bytes remain (an element takes at least one), so
// nothing can be made to allocate by a forged count. A read that fails (other type, or bytes end
// early) leaves the position where it was.
//
// Thread-compatible. Strings and binaries point into the bytes, which must outlive them.
class MsgpackCursor {
 public:
  enum class Type : uint8_t {
    kEnd,  // no bytes left
    kNil,
    kBool,
    kInt,
    kFloat,
    kString,
    kBinary,
    kArray,
    kMap,
    kExtension,
    kInvalid,  // 0xc1, or bytes end inside the head, or a length beyond the remaining bytes
  };

  // 64 bits as sent; a negative number is its two's complement.
  struct Int {
    uint64_t bits = 0;
    bool negative = false;
  };

  explicit MsgpackCursor(std::string_view bytes)
      : at_(reinterpret_cast<const uint8_t*>(bytes.data())), end_(at_ + bytes.size()) {}

  Type Peek() const {
    const uint8_t* p = at_;
    return ReadHead(&p).type;
  }

  size_t RemainingBytes() const { return static_cast<size_t>(end_ - at_); }

  bool ReadNil() { return ReadIf(Type::kNil, nullptr); }

  bool ReadInt(Int* out) {
    if (at_ != end_ && *at_ < 0x80) {  // most token ids and counts
      *out = {*at_++, false};
      return true;
    }
    Head head;
    if (!ReadIf(Type::kInt, &head)) return false;
    *out = {head.bits, head.negative};
    return true;
  }

  // A float or an integer, as senders differ for whole numbers.
  bool ReadNumber(double* out) {
    const uint8_t* p = at_;
    const Head head = ReadHead(&p);
    if (head.type == Type::kFloat) {
      *out = std::bit_cast<double>(head.bits);
    } else if (head.type == Type::kInt) {
      *out = head.negative ? static_cast<double>(static_cast<int64_t>(head.bits))
                           : static_cast<double>(head.bits);
    } else {
      return false;
    }
    at_ = p;
    return true;
  }

  bool ReadString(std::string_view* out) { return ReadBytes(Type::kString, out); }
  bool ReadBinary(std::string_view* out) { return ReadBytes(Type::kBinary, out); }

  // Enters a container: that many elements (or key-value pairs) follow.
  bool ReadArray(uint32_t* element_count) { return ReadCount(Type::kArray, element_count); }
  bool ReadMap(uint32_t* pair_count) { return ReadCount(Type::kMap, pair_count); }

  // Steps over one value of any kind. Not recursive: nesting costs a counter, so depth needs no
  // limit.
  bool Skip() {
    const uint8_t* p = at_;
    for (uint64_t pending = 1; pending > 0; --pending) {
      const Head head = ReadHead(&p);
      switch (head.type) {
        case Type::kEnd:
        case Type::kInvalid:
          return false;
        case Type::kString:
        case Type::kBinary:
        case Type::kExtension:
          p += head.length;
          break;
        case Type::kArray:
          pending += head.length;
          break;
        case Type::kMap:
          pending += 2 * uint64_t{head.length};
          break;
        default:
          break;
      }
      if (pending - 1 > static_cast<uint64_t>(end_ - p)) return false;
    }
    at_ = p;
    return true;
  }

 private:
  struct Head {
    Type type = Type::kInvalid;
    bool negative = false;
    uint32_t length = 0;  // bytes of string, binary, extension; elements of array; pairs of map
    uint64_t bits = 0;    // integers; floats as the bits of a double
  };

  template <typename T>
  static T LoadBigEndian(const uint8_t* p) {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>((uint64_t{value} << 8) | p[i]);
    return value;
  }

  // Reads a big-endian T at *p and advances; false when bytes end.
  template <typename T>
  bool Take(const uint8_t** p, T* out) const {
    if (static_cast<size_t>(end_ - *p) < sizeof(T)) return false;
    *out = LoadBigEndian<T>(*p);
    *p += sizeof(T);
    return true;
  }

  template <typename T>
  Head Unsigned(const uint8_t** p) const {
    T value = 0;
    if (!Take(p, &value)) return {};
    return {.type = Type::kInt, .bits = value};
  }

  template <typename U, typename S>
  Head Signed(const uint8_t** p) const {
    U raw = 0;
    if (!Take(p, &raw)) return {};
    const int64_t value = static_cast<S>(raw);
    return {.type = Type::kInt, .negative = value < 0, .bits = static_cast<uint64_t>(value)};
  }

  // A value that is followed by `length` elements of at least `min_element_bytes` each.
  Head Sized(const uint8_t* p, Type type, uint32_t length, uint64_t min_element_bytes) const {
    if (length * min_element_bytes > static_cast<uint64_t>(end_ - p)) return {};
    return {.type = type, .length = length};
  }

  template <typename T>
  Head SizedBy(const uint8_t** p, Type type, uint64_t min_element_bytes, uint32_t extra = 0) const {
    T length = 0;
    if (!Take(p, &length)) return {};
    if (uint64_t{length} + extra > UINT32_MAX) return {};
    return Sized(*p, type, static_cast<uint32_t>(length + extra), min_element_bytes);
  }

  Head ReadHead(const uint8_t** p) const {
    if (*p == end_) return {.type = Type::kEnd};
    const uint8_t lead = *(*p)++;
    if (lead < 0x80) return {.type = Type::kInt, .bits = lead};
    if (lead >= 0xe0) {
      return {.type = Type::kInt,
              .negative = true,
              .bits = static_cast<uint64_t>(int64_t{static_cast<int8_t>(lead)})};
    }
    if (lead < 0x90) return Sized(*p, Type::kMap, lead & 0x0f, 2);
    if (lead < 0xa0) return Sized(*p, Type::kArray, lead & 0x0f, 1);
    if (lead < 0xc0) return Sized(*p, Type::kString, lead & 0x1f, 1);
    switch (lead) {
      case 0xc0:
        return {.type = Type::kNil};
      case 0xc2:
      case 0xc3:
        return {.type = Type::kBool, .bits = lead & 1u};
      case 0xc4:
        return SizedBy<uint8_t>(p, Type::kBinary, 1);
      case 0xc5:
        return SizedBy<uint16_t>(p, Type::kBinary, 1);
      case 0xc6:
        return SizedBy<uint32_t>(p, Type::kBinary, 1);
      case 0xc7:  // extensions: one more byte, the application's type
        return SizedBy<uint8_t>(p, Type::kExtension, 1, 1);
      case 0xc8:
        return SizedBy<uint16_t>(p, Type::kExtension, 1, 1);
      case 0xc9:
        return SizedBy<uint32_t>(p, Type::kExtension, 1, 1);
      case 0xca: {
        uint32_t raw = 0;
        if (!Take(p, &raw)) return {};
        return {.type = Type::kFloat,
                .bits = std::bit_cast<uint64_t>(double{std::bit_cast<float>(raw)})};
      }
      case 0xcb: {
        uint64_t raw = 0;
        if (!Take(p, &raw)) return {};
        return {.type = Type::kFloat, .bits = raw};
      }
      case 0xcc:
        return Unsigned<uint8_t>(p);
      case 0xcd:
        return Unsigned<uint16_t>(p);
      case 0xce:
        return Unsigned<uint32_t>(p);
      case 0xcf:
        return Unsigned<uint64_t>(p);
      case 0xd0:
        return Signed<uint8_t, int8_t>(p);
      case 0xd1:
        return Signed<uint16_t, int16_t>(p);
      case 0xd2:
        return Signed<uint32_t, int32_t>(p);
      case 0xd3:
        return Signed<uint64_t, int64_t>(p);
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return Sized(*p, Type::kExtension, 1 + (1u << (lead - 0xd4)), 1);
      case 0xd9:
        return SizedBy<uint8_t>(p, Type::kString, 1);
      case 0xda:
        return SizedBy<uint16_t>(p, Type::kString, 1);
      case 0xdb:
        return SizedBy<uint32_t>(p, Type::kString, 1);
      case 0xdc:
        return SizedBy<uint16_t>(p, Type::kArray, 1);
      case 0xdd:
        return SizedBy<uint32_t>(p, Type::kArray, 1);
      case 0xde:
        return SizedBy<uint16_t>(p, Type::kMap, 2);
      case 0xdf:
        return SizedBy<uint32_t>(p, Type::kMap, 2);
      default:
        return {};
    }
  }

  bool ReadIf(Type type, Head* out) {
    const uint8_t* p = at_;
    const Head head = ReadHead(&p);
    if (head.type != type) return false;
    if (out != nullptr) *out = head;
    at_ = p;
    return true;
  }

  bool ReadBytes(Type type, std::string_view* out) {
    Head head;
    if (!ReadIf(type, &head)) return false;
    *out = {reinterpret_cast<const char*>(at_), head.length};
    at_ += head.length;
    return true;
  }

  bool ReadCount(Type type, uint32_t* out) {
    Head head;
    if (!ReadIf(type, &head)) return false;
    *out = head.length;
    return true;
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_MSGPACK_CURSOR_H_
