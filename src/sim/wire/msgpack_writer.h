#ifndef KVROUTER_SIM_WIRE_MSGPACK_WRITER_H_
#define KVROUTER_SIM_WIRE_MSGPACK_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace kvrouter::sim {

// Writes msgpack values one after another, each in the shortest form, as the encoders of real
// engines do. Containers are announced by their number of elements; the caller then writes exactly
// that many (twice as many for a map).
//
// Thread-compatible.
class MsgpackWriter {
 public:
  void Nil() { Byte(0xc0); }
  void Bool(bool value) { Byte(value ? 0xc3 : 0xc2); }
  void Uint(uint64_t value);
  void Int(int64_t value);  // non-negative values take the unsigned forms
  void Double(double value);
  void Str(std::string_view value);  // REQUIRES: shorter than 4 GiB, as all sizes here
  void Bin(std::string_view bytes);
  void Array(size_t elements);
  void Map(size_t pairs);

  std::string Take() { return std::move(out_); }

 private:
  void Byte(unsigned value) { out_.push_back(static_cast<char>(value)); }
  void BigEndian(uint64_t value, int bytes);

  std::string out_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_MSGPACK_WRITER_H_
