#include "sim/wire/msgpack_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvrouter::sim {
namespace {

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 0xf];
  }
  return hex;
}

template <typename Write>
std::string Written(Write write) {
  MsgpackWriter out;
  write(out);
  return Hex(out.Take());
}

// Expected bytes are the format specification's, at each edge between two forms.
TEST(MsgpackWriterTest, UnsignedIntegersTakeTheShortestForm) {
  const std::vector<std::pair<uint64_t, std::string>> cases = {
      {0, "00"},
      {127, "7f"},
      {128, "cc80"},
      {255, "ccff"},
      {256, "cd0100"},
      {65535, "cdffff"},
      {65536, "ce00010000"},
      {4294967295, "ceffffffff"},
      {4294967296, "cf0000000100000000"},
      {std::numeric_limits<uint64_t>::max(), "cfffffffffffffffff"},
  };
  for (const auto& [value, hex] : cases) {
    EXPECT_EQ(Written([v = value](auto& out) { out.Uint(v); }), hex) << value;
  }
}

TEST(MsgpackWriterTest, NegativeIntegersTakeTheShortestForm) {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {5, "05"},
      {-1, "ff"},
      {-32, "e0"},
      {-33, "d0df"},
      {-128, "d080"},
      {-129, "d1ff7f"},
      {-32768, "d18000"},
      {-32769, "d2ffff7fff"},
      {-2147483648, "d280000000"},
      {-2147483649, "d3ffffffff7fffffff"},
      {std::numeric_limits<int64_t>::min(), "d38000000000000000"},
  };
  for (const auto& [value, hex] : cases) {
    EXPECT_EQ(Written([v = value](auto& out) { out.Int(v); }), hex) << value;
  }
}

TEST(MsgpackWriterTest, ScalarsHaveOneForm) {
  EXPECT_EQ(Written([](auto& out) { out.Nil(); }), "c0");
  EXPECT_EQ(Written([](auto& out) { out.Bool(false); }), "c2");
  EXPECT_EQ(Written([](auto& out) { out.Bool(true); }), "c3");
  EXPECT_EQ(Written([](auto& out) { out.Double(1.5); }), "cb3ff8000000000000");
}

TEST(MsgpackWriterTest, LengthsTakeTheShortestHeader) {
  const auto str = [](size_t n) {
    return Written([n](auto& out) { out.Str(std::string(n, 'a')); });
  };
  EXPECT_EQ(str(0), "a0");
  EXPECT_EQ(str(1), "a161");
  EXPECT_THAT(str(31), testing::StartsWith("bf61"));
  EXPECT_THAT(str(32), testing::StartsWith("d92061"));
  EXPECT_THAT(str(255), testing::StartsWith("d9ff61"));
  EXPECT_THAT(str(256), testing::StartsWith("da010061"));
  EXPECT_THAT(str(65535), testing::StartsWith("daffff61"));
  EXPECT_THAT(str(65536), testing::StartsWith("db0001000061"));
  const auto bin = [](size_t n) {
    return Written([n](auto& out) { out.Bin(std::string(n, 'a')); });
  };
  EXPECT_EQ(bin(1), "c40161");
  EXPECT_THAT(bin(256), testing::StartsWith("c5010061"));
  EXPECT_THAT(bin(65536), testing::StartsWith("c60001000061"));
  const auto array = [](size_t n) { return Written([n](auto& out) { out.Array(n); }); };
  EXPECT_EQ(array(15), "9f");
  EXPECT_EQ(array(16), "dc0010");
  EXPECT_EQ(array(65535), "dcffff");
  EXPECT_EQ(array(65536), "dd00010000");
  const auto map = [](size_t n) { return Written([n](auto& out) { out.Map(n); }); };
  EXPECT_EQ(map(15), "8f");
  EXPECT_EQ(map(16), "de0010");
  EXPECT_EQ(map(65536), "df00010000");
}

}  // namespace
}  // namespace kvrouter::sim
