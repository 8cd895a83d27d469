#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "adapters/engine_http/answer_parser.h"

// Bytes of an engine, whole and in pieces: both ways tell the same, within the bounds. The first
// byte says how long pieces are, and whether the request was a HEAD.

namespace kvrouter {
namespace {

struct Told final : AnswerSink {
  void OnHead(EngineReplyHead head) override {
    if (head_seen) std::abort();
    head_seen = true;
    text += std::to_string(head.status);
    for (const auto& [name, value] : head.headers) text += name + ":" + value + "\n";
  }
  void OnPiece(std::string_view piece) override {
    if (!head_seen || piece.empty()) std::abort();
    text += piece;
  }
  bool head_seen = false;
  std::string text;
};

struct Outcome {
  AnswerParser::State state = AnswerParser::State::kNeedsMore;
  bool keeps = false;
  std::string text;
};

Outcome Parse(std::string_view bytes, size_t piece_bytes, bool head_only) {
  AnswerParser parser({.max_head_bytes = 4096, .max_interim_answers = 3}, head_only);
  Told told;
  Outcome outcome;
  while (!bytes.empty() && outcome.state == AnswerParser::State::kNeedsMore) {
    const std::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    outcome.state = parser.Feed(piece, &told);
  }
  if (outcome.state == AnswerParser::State::kNeedsMore) outcome.state = parser.FeedEnd();
  if (outcome.state == AnswerParser::State::kDone) {
    if (!told.head_seen) std::abort();
    outcome.keeps = parser.KeepsConnection();
  } else if (parser.Problem().empty()) {
    std::abort();
  }
  outcome.text = told.text;
  return outcome;
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kvrouter::AnswerParser;
  if (size < 1 || size > 3000)
    return 0;  // below the bound on heads, which pieces may meet elsewhere
  const bool head_only = (data[0] & 1) != 0;
  const size_t piece_bytes = 1 + data[0] / 2;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const kvrouter::Outcome whole = kvrouter::Parse(bytes, bytes.size() + 1, head_only);
  const kvrouter::Outcome pieces = kvrouter::Parse(bytes, piece_bytes, head_only);
  if (whole.state != pieces.state) std::abort();
  // Broken ones may have told a piece more or less of their bodies.
  if (whole.state == AnswerParser::State::kDone && whole.text != pieces.text) std::abort();
  // What comes behind the answer is seen only if it comes with it.
  if (whole.keeps && !pieces.keeps) std::abort();
  return 0;
}
