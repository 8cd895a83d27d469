#ifndef KVROUTER_BASE_ASCII_H_
#define KVROUTER_BASE_ASCII_H_

#include <algorithm>
#include <string>
#include <string_view>

namespace kvrouter {

// Letters and digits as wires and files mean them: ASCII's alone, whatever the locale. Other bytes
// are neither, and have no case.

constexpr char AsciiLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool IsAsciiAlphanumeric(char c) {
  const char lower = AsciiLower(c);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

// 0..15, negative if it is no hexadecimal digit.
constexpr int HexDigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = AsciiLower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

inline std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = AsciiLower(c);
  return lower;
}

inline bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return AsciiLower(x) == AsciiLower(y); });
}

}  // namespace kvrouter

#endif  // KVROUTER_BASE_ASCII_H_
