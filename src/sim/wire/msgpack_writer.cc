#include "sim/wire/msgpack_writer.h"

#include <bit>
#include <limits>

#include "base/check.h"

namespace kvrouter::sim {

void MsgpackWriter::BigEndian(uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) Byte((value >> shift) & 0xff);
}

void MsgpackWriter::Uint(uint64_t value) {
  if (value < 0x80) {
    Byte(static_cast<unsigned>(value));
  } else if (value <= 0xff) {
    Byte(0xcc);
    BigEndian(value, 1);
  } else if (value <= 0xffff) {
    Byte(0xcd);
    BigEndian(value, 2);
  } else if (value <= 0xffffffff) {
    Byte(0xce);
    BigEndian(value, 4);
  } else {
    Byte(0xcf);
    BigEndian(value, 8);
  }
}

void MsgpackWriter::Int(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0) {
    Uint(bits);
  } else if (value >= -32) {
    Byte(bits & 0xff);
  } else if (value >= std::numeric_limits<int8_t>::min()) {
    Byte(0xd0);
    BigEndian(bits, 1);
  } else if (value >= std::numeric_limits<int16_t>::min()) {
    Byte(0xd1);
    BigEndian(bits, 2);
  } else if (value >= std::numeric_limits<int32_t>::min()) {
    Byte(0xd2);
    BigEndian(bits, 4);
  } else {
    Byte(0xd3);
    BigEndian(bits, 8);
  }
}

void MsgpackWriter::Double(double value) {
  Byte(0xcb);
  BigEndian(std::bit_cast<uint64_t>(value), 8);
}

void MsgpackWriter::Str(std::string_view value) {
  KVR_CHECK(value.size() <= 0xffffffff, "size={}", value.size());
  if (value.size() < 32) {
    Byte(0xa0 | static_cast<unsigned>(value.size()));
  } else if (value.size() <= 0xff) {
    Byte(0xd9);
    BigEndian(value.size(), 1);
  } else if (value.size() <= 0xffff) {
    Byte(0xda);
    BigEndian(value.size(), 2);
  } else {
    Byte(0xdb);
    BigEndian(value.size(), 4);
  }
  out_.append(value);
}

void MsgpackWriter::Bin(std::string_view bytes) {
  KVR_CHECK(bytes.size() <= 0xffffffff, "size={}", bytes.size());
  if (bytes.size() <= 0xff) {
    Byte(0xc4);
    BigEndian(bytes.size(), 1);
  } else if (bytes.size() <= 0xffff) {
    Byte(0xc5);
    BigEndian(bytes.size(), 2);
  } else {
    Byte(0xc6);
    BigEndian(bytes.size(), 4);
  }
  out_.append(bytes);
}

void MsgpackWriter::Array(size_t elements) {
  KVR_CHECK(elements <= 0xffffffff, "size={}", elements);
  if (elements < 16) {
    Byte(0x90 | static_cast<unsigned>(elements));
  } else if (elements <= 0xffff) {
    Byte(0xdc);
    BigEndian(elements, 2);
  } else {
    Byte(0xdd);
    BigEndian(elements, 4);
  }
}

void MsgpackWriter::Map(size_t pairs) {
  KVR_CHECK(pairs <= 0xffffffff, "size={}", pairs);
  if (pairs < 16) {
    Byte(0x80 | static_cast<unsigned>(pairs));
  } else if (pairs <= 0xffff) {
    Byte(0xde);
    BigEndian(pairs, 2);
  } else {
    Byte(0xdf);
    BigEndian(pairs, 4);
  }
}

}  // namespace kvrouter::sim
