#include "feed/msgpack_cursor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using Type = MsgpackCursor::Type;

TEST(MsgpackCursorTest, IntegersOfEveryWidthKeepTheirBits) {
  const struct {
    const char* hex;
    uint64_t bits;
    bool negative;
  } kCases[] = {
      {"00", 0, false},
      {"7f", 127, false},
      {"cc80", 128, false},
      {"cdffff", 65535, false},
      {"ceffffffff", 0xffffffff, false},
      {"cf8000000000000000", uint64_t{1} << 63, false},
      {"cfffffffffffffffff", UINT64_MAX, false},
      {"cf0020000000000001", (uint64_t{1} << 53) + 1, false},
      {"ff", static_cast<uint64_t>(-1), true},
      {"e0", static_cast<uint64_t>(-32), true},
      {"d080", static_cast<uint64_t>(-128), true},
      {"d07f", 127, false},
      {"d18000", static_cast<uint64_t>(-32768), true},
      {"d2ffffffff", static_cast<uint64_t>(-1), true},
      {"d38000000000000000", uint64_t{1} << 63, true},
      {"d3ffffffffffffffff", UINT64_MAX, true},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.hex);
    const std::string bytes = FromHex(c.hex);
    MsgpackCursor cursor(bytes);
    MsgpackCursor::Int value;
    ASSERT_TRUE(cursor.ReadInt(&value));
    EXPECT_EQ(value.bits, c.bits);
    EXPECT_EQ(value.negative, c.negative);
    EXPECT_EQ(cursor.Peek(), Type::kEnd);
  }
}

TEST(MsgpackCursorTest, NumbersMayBeFloatsOrIntegers) {
  for (const char* hex : {"cb41d954fc40000000", "ce6553f100", "ca4ecaa7e2"}) {
    SCOPED_TRACE(hex);
    const std::string bytes = FromHex(hex);
    MsgpackCursor cursor(bytes);
    double value = 0;
    ASSERT_TRUE(cursor.ReadNumber(&value));
    EXPECT_NEAR(value, 1.7e9, 64);  // a 32-bit float has 24 bits of mantissa
  }
  const std::string negative = FromHex("d3ffffffffffffffff");
  MsgpackCursor cursor(negative);
  double value = 0;
  ASSERT_TRUE(cursor.ReadNumber(&value));
  EXPECT_EQ(value, -1.0);
}

TEST(MsgpackCursorTest, FailedReadLeavesThePosition) {
  const std::string bytes = MsgpackWriter().Str("abc").Uint(7).bytes();
  MsgpackCursor cursor(bytes);
  MsgpackCursor::Int number;
  uint32_t count = 0;
  std::string_view text;
  EXPECT_FALSE(cursor.ReadInt(&number));
  EXPECT_FALSE(cursor.ReadArray(&count));
  EXPECT_FALSE(cursor.ReadBinary(&text));
  EXPECT_FALSE(cursor.ReadNil());
  ASSERT_TRUE(cursor.ReadString(&text));
  EXPECT_EQ(text, "abc");
  ASSERT_TRUE(cursor.ReadInt(&number));
  EXPECT_EQ(number.bits, 7u);
}

TEST(MsgpackCursorTest, ForgedLengthIsNotBelieved) {
  // string, binary, array, map and extension heads that announce 2^32 - 1 elements
  for (const char* hex :
       {"dbffffffff61", "c6ffffffff61", "ddffffffff01", "dfffffffff0101", "c9ffffffff0161"}) {
    SCOPED_TRACE(hex);
    const std::string bytes = FromHex(hex);
    MsgpackCursor cursor(bytes);
    EXPECT_EQ(cursor.Peek(), Type::kInvalid);
    EXPECT_FALSE(cursor.Skip());
    EXPECT_EQ(cursor.RemainingBytes(), bytes.size());
  }
}

TEST(MsgpackCursorTest, EveryTruncationIsNoticed) {
  const std::string whole = MsgpackWriter()
                                .Map(2)
                                .Str("a")
                                .Array(3)
                                .Float(1.5)
                                .Uint(1u << 20)
                                .Bin("xyz")
                                .Str(std::string(40, 'k'))
                                .Int(-1000)
                                .bytes();
  MsgpackCursor complete(whole);
  ASSERT_TRUE(complete.Skip());
  EXPECT_EQ(complete.RemainingBytes(), 0u);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    MsgpackCursor cursor(std::string_view(whole).substr(0, length));
    EXPECT_FALSE(cursor.Skip());
  }
}

TEST(MsgpackCursorTest, SkipCostsNoStackHoweverDeepTheNesting) {
  std::string bytes(4'000'000, static_cast<char>(0x91));
  bytes.push_back(static_cast<char>(0xc0));
  MsgpackCursor cursor(bytes);
  ASSERT_TRUE(cursor.Skip());
  EXPECT_EQ(cursor.RemainingBytes(), 0u);
}

TEST(MsgpackCursorTest, SkipKnowsEveryKind) {
  // nil, false, true, ext8, ext16, ext32, fixext1..16, bin16, bin32, str16, str32, array16,
  // array32, map16, map32
  for (const char* hex :
       {"c0", "c2", "c3", "c7010561", "c800010561", "c9000000010561", "d40161", "d5016161",
        "d60161616161", "d7016161616161616161", "d80161616161616161616161616161616161", "c5000161",
        "c60000000161", "da000161", "db0000000161", "dc0001c0", "dd00000001c0", "de0001c0c0",
        "df00000001c0c0"}) {
    SCOPED_TRACE(hex);
    const std::string bytes = FromHex(hex);
    MsgpackCursor cursor(bytes);
    ASSERT_TRUE(cursor.Skip());
    EXPECT_EQ(cursor.RemainingBytes(), 0u);
  }
}

TEST(MsgpackCursorTest, ReservedByteIsInvalid) {
  const std::string bytes = FromHex("c1");
  MsgpackCursor cursor(bytes);
  EXPECT_EQ(cursor.Peek(), Type::kInvalid);
  EXPECT_FALSE(cursor.Skip());
}

}  // namespace
}  // namespace kvrouter
