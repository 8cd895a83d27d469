// What clients and engines send the dispatcher: any bytes give a reading or an error. An edited
// body is the same JSON but for the edit, a stream is passed on byte for byte whatever its pieces,
// and what is read of it does not depend on them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "dispatch/kv_handshake.h"
#include "dispatch/leg_bodies.h"
#include "dispatch/openai_request.h"
#include "dispatch/sse_scanner.h"

namespace kvrouter {
namespace {

void ScanInPieces(const std::string& text, size_t step) {
  SseScanner whole;
  std::string at_once(whole.Feed(text));
  at_once += whole.Rest();
  SseScanner pieces;
  std::string passed;
  for (size_t at = 0; at < text.size(); at += step)
    passed += pieces.Feed(std::string_view(text).substr(at, step));
  passed += pieces.Rest();
  KVR_CHECK(at_once == text && passed == text, "the stream was changed");
  KVR_CHECK(whole.output_tokens() == pieces.output_tokens() && whole.error() == pieces.error() &&
                whole.done() == pieces.done() && whole.output_begun() == pieces.output_begun(),
            "pieces decide what is read");
}

// What is withheld does not depend on the pieces either, and is all that is missing.
void WithholdInPieces(const std::string& text, size_t step) {
  SseScanner whole;
  whole.WithholdUsage();
  std::string at_once(whole.Feed(text));
  at_once += whole.TakeRest();
  SseScanner pieces;
  pieces.WithholdUsage();
  std::string passed;
  for (size_t at = 0; at < text.size(); at += step)
    passed += pieces.Feed(std::string_view(text).substr(at, step));
  passed += pieces.TakeRest();
  KVR_CHECK(at_once == passed, "pieces decide what is withheld");
  KVR_CHECK(at_once.size() == text.size() || whole.usage().prompt_tokens ||
                text.find("usage") != std::string::npos,
            "what is no usage was withheld");
}

void EditBody(const std::string& text) {
  const auto object = JsonObject::Of(text);
  if (!object) return;
  KVR_CHECK(BodyEdit().Apply(*object) == text, "an edit of nothing changed the text");
  BodyEdit edit;
  edit.Set("a", "[1]");
  edit.Remove("b");
  const std::string edited = edit.Apply(*object);
  const auto again = JsonObject::Of(edited);
  KVR_CHECK(again && again->Find("a") == "[1]" && !again->Find("b"), "the edit is not in the text");
  for (const JsonObject::Member& member : object->members()) {
    if (member.key != "a" && member.key != "b")
      KVR_CHECK(again->Find(member.key) == object->Find(member.key), "another member changed");
  }
  (void)ConsumerBody(*object, {.cache_salt = "s"}, "{}");
  (void)ProducerBody(*object, {});
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvrouter;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string roomy = text;
  roomy.reserve(text.size() + 128);
  const auto endpoint =
      data[0] % 2 == 0 ? OpenAiEndpoint::kCompletions : OpenAiEndpoint::kChatCompletions;
  const OpenAiLimits limits{.max_prompt_tokens = 64};
  const auto copied = ReadOpenAiRequest(endpoint, text, limits);
  const auto in_place = ReadOpenAiRequest(endpoint, roomy, limits);
  KVR_CHECK(copied.status() == in_place.status(), "in place and copied differ");
  if (in_place.ok()) {
    KVR_CHECK(in_place->token_ids == copied->token_ids, "tokens differ");
    KVR_CHECK(in_place->text_begin + in_place->text_bytes <= text.size(), "text out of the body");
    KVR_CHECK(in_place->text_begin == copied->text_begin, "text elsewhere");
  }
  (void)ReadModel(text);
  (void)ReadHandshake(text, "http://h");
  EditBody(text);
  ScanInPieces(text, 1 + data[0] % 7);
  WithholdInPieces(text, 1 + data[0] % 7);
  return 0;
}
