#include "ctl/token_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>

namespace kvrouter::ctl {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n[]";
constexpr std::string_view kBlanks = " \t\r\n[]";

absl::Status Bad(std::string_view item) {
  return absl::InvalidArgumentError(
      fmt::format("--tokens: \"{}\" is neither a token id (0..{}) nor a range START-END",
                  item.substr(0, 40), UINT32_MAX));
}

bool ParseId(std::string_view text, uint32_t* id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *id);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status AppendItem(std::string_view item, std::vector<uint32_t>* tokens) {
  const size_t dash = item.find('-');
  uint32_t first = 0;
  if (!ParseId(item.substr(0, dash), &first)) return Bad(item);
  uint32_t last = first;
  if (dash != std::string_view::npos && !ParseId(item.substr(dash + 1), &last)) return Bad(item);
  if (last < first) return Bad(item);
  const uint64_t count = uint64_t{last} - first + 1;
  if (tokens->size() + count > kMaxPromptTokens) {
    return absl::InvalidArgumentError(fmt::format(
        "--tokens: more than {} tokens, the most one message can carry", kMaxPromptTokens));
  }
  for (uint64_t id = first; id <= last; ++id) tokens->push_back(static_cast<uint32_t>(id));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseTokens(std::string_view text) {
  std::vector<uint32_t> tokens;
  bool after_comma = true;  // or at the start: an item is due before the next comma
  size_t begin = 0;
  while ((begin = text.find_first_not_of(kBlanks, begin)) != std::string_view::npos) {
    if (text[begin] == ',') {
      if (after_comma) return Bad("");
      after_comma = true;
      ++begin;
      continue;
    }
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    if (absl::Status status = AppendItem(text.substr(begin, end - begin), &tokens); !status.ok()) {
      return status;
    }
    after_comma = false;
    begin = end;
  }
  if (tokens.empty()) return absl::InvalidArgumentError("--tokens: no token in it");
  if (after_comma) return Bad("");
  return tokens;
}

absl::StatusOr<std::vector<uint32_t>> ReadTokens(const std::string& spec) {
  if (spec.empty() || spec.front() != '@') return ParseTokens(spec);
  if (spec == "@-") {
    return ParseTokens(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  }
  std::ifstream file(spec.substr(1), std::ios::binary);
  if (!file)
    return absl::NotFoundError(fmt::format("--tokens: cannot read file \"{}\"", spec.substr(1)));
  return ParseTokens(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace kvrouter::ctl
