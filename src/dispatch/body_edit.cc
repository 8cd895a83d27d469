#include "dispatch/body_edit.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ascii.h"
#include "base/json_text.h"

namespace kvrouter {
namespace {

// Prompts are long and consist of what is none of these.
constexpr std::array<bool, 256> Structural() {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> kStructural = Structural();

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Positions of text in a cursor; every function returns npos for text that ends too early.
constexpr size_t kBad = std::string_view::npos;

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  return at;
}

// `at` is behind the quote that opens it; answers behind the one that closes it.
size_t SkipString(std::string_view text, size_t at) {
  while (true) {
    const size_t quote = text.find('"', at);
    if (quote == std::string_view::npos) return kBad;
    size_t backslashes = 0;
    while (quote - backslashes > at && text[quote - backslashes - 1] == '\\') ++backslashes;
    at = quote + 1;
    if (backslashes % 2 == 0) return at;
  }
}

size_t SkipNested(std::string_view text, size_t at) {
  size_t depth = 0;
  while (true) {
    while (at < text.size() && !kStructural[static_cast<unsigned char>(text[at])]) ++at;
    if (at == text.size()) return kBad;
    const char c = text[at++];
    if (c == '"') {
      at = SkipString(text, at);
      if (at == kBad) return kBad;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (--depth == 0) {
      return at;
    }
  }
}

size_t SkipValue(std::string_view text, size_t at) {
  if (at >= text.size()) return kBad;
  if (text[at] == '"') return SkipString(text, at + 1);
  if (text[at] == '{' || text[at] == '[') return SkipNested(text, at);
  const size_t begin = at;
  while (at < text.size() && text[at] != ',' && text[at] != '}' && text[at] != ']' &&
         !IsSpace(text[at]))
    ++at;
  return at == begin ? kBad : at;
}

// The ASCII character that an escape at `at` (behind "\u") stands for; negative: none.
int AsciiOfEscape(std::string_view key, size_t at) {
  if (at + 4 > key.size()) return -1;
  int code = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigitValue(key[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code < 0x80 ? code : -1;
}

// Names that matter here are ASCII, so other escapes may stay as they are.
std::string UnescapedKey(std::string_view key) {
  if (key.find('\\') == std::string_view::npos) return std::string(key);
  std::string plain;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] != '\\' || i + 1 == key.size()) {
      plain.push_back(key[i]);
      continue;
    }
    ++i;
    const int code = key[i] == 'u' ? AsciiOfEscape(key, i + 1) : -1;
    if (code >= 0) {
      plain.push_back(static_cast<char>(code));
      i += 4;
    } else if (key[i] == '/' || key[i] == '"' || key[i] == '\\') {
      plain.push_back(key[i]);
    } else {
      plain.push_back('\\');
      plain.push_back(key[i]);
    }
  }
  return plain;
}

// Reads one member from `at`; npos if there is none.
size_t ReadMember(std::string_view text, size_t at, JsonObject::Member* member) {
  if (at >= text.size() || text[at] != '"') return kBad;
  member->begin = at;
  const size_t key_end = SkipString(text, at + 1);
  if (key_end == kBad) return kBad;
  member->key = UnescapedKey(text.substr(at + 1, key_end - at - 2));
  at = SkipSpace(text, key_end);
  if (at >= text.size() || text[at] != ':') return kBad;
  member->value = SkipSpace(text, at + 1);
  member->end = SkipValue(text, member->value);
  return member->end;
}

}  // namespace

std::optional<JsonObject> JsonObject::Of(std::string_view text) {
  JsonObject object;
  object.text_ = text;
  size_t at = SkipSpace(text, 0);
  if (at >= text.size() || text[at] != '{') return std::nullopt;
  object.body_begin_ = ++at;
  at = SkipSpace(text, at);
  if (at < text.size() && text[at] == '}') return object;
  while (true) {
    Member member;
    at = ReadMember(text, SkipSpace(text, at), &member);
    if (at == kBad) return std::nullopt;
    object.members_.push_back(std::move(member));
    at = SkipSpace(text, at);
    if (at >= text.size()) return std::nullopt;
    if (text[at] == '}') return object;
    if (text[at++] != ',') return std::nullopt;
  }
}

std::optional<std::string_view> JsonObject::Find(std::string_view key) const {
  const auto found = std::find_if(members_.rbegin(), members_.rend(),
                                  [&](const Member& member) { return member.key == key; });
  if (found == members_.rend()) return std::nullopt;
  return text_.substr(found->value, found->end - found->value);
}

void BodyEdit::Change(std::string_view key, std::optional<std::string> value) {
  for (ChangedKey& change : changes_) {
    if (change.key != key) continue;
    change.value = std::move(value);
    return;
  }
  changes_.push_back({std::string(key), std::move(value)});
}

const BodyEdit::ChangedKey* BodyEdit::Find(std::string_view key) const {
  for (const ChangedKey& change : changes_) {
    if (change.key == key) return &change;
  }
  return nullptr;
}

std::string BodyEdit::Apply(const JsonObject& object) const {
  const std::string_view text = object.text();
  const auto& members = object.members();
  size_t added_bytes = 0;
  for (const ChangedKey& change : changes_)
    added_bytes += change.key.size() + (change.value ? change.value->size() : 0) + 4;
  std::string out;
  // Room for readers that want some behind the text, too.
  out.reserve(text.size() + added_bytes + 64);
  const size_t first = members.empty() ? object.body_begin() : members.front().begin;
  out += text.substr(0, first);
  bool any = false;
  const auto is_last_of_key = [&](size_t i) {
    return std::none_of(members.begin() + static_cast<std::ptrdiff_t>(i) + 1, members.end(),
                        [&](const auto& later) { return later.key == members[i].key; });
  };
  for (size_t i = 0; i < members.size(); ++i) {
    const JsonObject::Member& member = members[i];
    const ChangedKey* const change = Find(member.key);
    if (change != nullptr && (!change->value || !is_last_of_key(i))) continue;
    if (any) out += text.substr(members[i - 1].end, member.begin - members[i - 1].end);
    any = true;
    if (change == nullptr) {
      out += text.substr(member.begin, member.end - member.begin);
    } else {
      out += text.substr(member.begin, member.value - member.begin);
      out += *change->value;
    }
  }
  for (const ChangedKey& change : changes_) {
    if (!change.value || object.Find(change.key)) continue;
    if (any) out.push_back(',');
    any = true;
    AppendJsonString(change.key, &out);
    out.push_back(':');
    out += *change.value;
  }
  out += text.substr(members.empty() ? object.body_begin() : members.back().end);
  return out;
}

std::string SelectMembers(const JsonObject& object, const std::vector<std::string_view>& keys) {
  std::string out = "{";
  for (const std::string_view key : keys) {
    const auto value = object.Find(key);
    if (!value) continue;
    if (out.size() > 1) out.push_back(',');
    AppendJsonString(key, &out);
    out.push_back(':');
    out += *value;
  }
  out.push_back('}');
  return out;
}

}  // namespace kvrouter
