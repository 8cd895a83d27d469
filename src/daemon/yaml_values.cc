#include "daemon/yaml_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/ascii.h"

namespace kvrouter {

absl::Status Place::Error(std::string_view what) const {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file, line, what));
}

absl::StatusOr<uint64_t> ParseWhole(const YAML::Node& node, std::string_view key, uint64_t max,
                                    const Place& place) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!node.IsScalar() || error != std::errc() || end != text.data() + text.size() || value > max) {
    return place.Error(
        fmt::format("{}: bad value '{}': want a whole number in 0..{}", key, text, max));
  }
  return value;
}

absl::StatusOr<std::string> ParseText(const YAML::Node& node, std::string_view key,
                                      const Place& place) {
  if (!node.IsScalar()) return place.Error(fmt::format("{}: want a single value", key));
  return node.Scalar();
}

absl::StatusOr<bool> ParseFlag(const YAML::Node& node, std::string_view key, const Place& place) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (text == "true") return true;
  if (text == "false") return false;
  return place.Error(fmt::format("{}: bad value '{}': want true or false", key, text));
}

std::string YamlScalar(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsAsciiAlphanumeric(c) || c == '.' || c == '/' || c == '_' || c == '-' || c == ':';
  });
  if (plain && text.front() != '-' && text.back() != ':') return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace kvrouter
