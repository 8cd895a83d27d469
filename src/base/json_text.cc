#include "base/json_text.h"

#include <array>
#include <charconv>

#include "base/utf8.h"

namespace kvrouter {

void AppendJsonString(std::string_view text, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out->push_back('"');
  for (const char c : ValidUtf8(text, "\xef\xbf\xbd")) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < 0x20) {
      *out += "\\u00";
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendJsonNumbers(std::span<const uint32_t> numbers, std::string* out) {
  out->reserve(out->size() + 2 + numbers.size() * 7);
  out->push_back('[');
  bool first = true;
  for (const uint32_t number : numbers) {
    if (!first) out->push_back(',');
    first = false;
    std::array<char, 10> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out->append(digits.data(), end);
  }
  out->push_back(']');
}

}  // namespace kvrouter
