#ifndef KVROUTER_DISPATCH_BODY_EDIT_H_
#define KVROUTER_DISPATCH_BODY_EDIT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrouter {

// Changes top-level members of a JSON object by where they lie in its text. Every other byte stays:
// fields nobody here knows, the spelling of numbers, the order of keys.
//
// Reads only as much structure as it needs, so text that is not JSON may be taken for it; bodies
// are checked by their reader (openai_request.h). Pure.

// Where the members of an object lie. Borrows the text.
class JsonObject {
 public:
  struct Member {
    std::string key;   // unescaped, as far as it is ASCII
    size_t begin = 0;  // of the key's quote
    size_t value = 0;  // of the value
    size_t end = 0;    // behind the value
  };

  // Nothing if the text is no object.
  static std::optional<JsonObject> Of(std::string_view text);

  // The value's text; of a key that is there more than once, the last one's, as most readers take
  // it. Nothing if absent.
  std::optional<std::string_view> Find(std::string_view key) const;
  const std::vector<Member>& members() const { return members_; }
  std::string_view text() const { return text_; }
  // Behind the brace that opens it.
  size_t body_begin() const { return body_begin_; }

 private:
  std::string_view text_;
  std::vector<Member> members_;
  size_t body_begin_ = 0;
};

// What is to become of an object. Of the changes to one key the last one counts.
class BodyEdit {
 public:
  // `value` is JSON text. Where the key is, else behind the last member.
  void Set(std::string_view key, std::string value) { Change(key, std::move(value)); }
  void Remove(std::string_view key) { Change(key, std::nullopt); }
  // Set, if the object has the key.
  void Replace(const JsonObject& object, std::string_view key, std::string value) {
    if (object.Find(key)) Set(key, std::move(value));
  }
  bool empty() const { return changes_.empty(); }

  std::string Apply(const JsonObject& object) const;

 private:
  struct ChangedKey {
    std::string key;
    std::optional<std::string> value;  // absent: removed
  };
  void Change(std::string_view key, std::optional<std::string> value);
  const ChangedKey* Find(std::string_view key) const;

  std::vector<ChangedKey> changes_;
};

// A new object of those of `keys` that the object has, in the order given, as they are there.
std::string SelectMembers(const JsonObject& object, const std::vector<std::string_view>& keys);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_BODY_EDIT_H_
