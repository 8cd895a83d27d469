#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ANSWER_PARSER_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ANSWER_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dispatch/engine_link.h"

namespace kvrouter {

struct AnswerLimits {
  uint32_t max_head_bytes = 65536;   // of a head, of the line before a chunk, of the trailer
  uint32_t max_interim_answers = 8;  // 1xx before the answer
};

// Told what an answer holds, piece by piece.
class AnswerSink {
 public:
  virtual void OnHead(EngineReplyHead head) = 0;
  virtual void OnPiece(std::string_view piece) = 0;  // of the body, never empty

 protected:
  ~AnswerSink() = default;
};

// One HTTP/1.x answer out of bytes. Body bytes pass through, only what is not understood yet is
// kept: at most max_head_bytes and what one Feed brought.
//
// Thread safety: thread-compatible. The sink must not destroy the parser.
class AnswerParser {
 public:
  enum class State : uint8_t { kNeedsMore, kDone, kBroken };

  // `head_only`: of a HEAD request, which has no body whatever its head says.
  AnswerParser(AnswerLimits limits, bool head_only);
  ~AnswerParser();
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  State Feed(std::string_view bytes, AnswerSink* sink);
  // The peer closed its side: the end of an answer whose length was not told, else kBroken.
  State FeedEnd();

  bool HeadDone() const;
  // REQUIRES: kDone. Whether another request may follow on this connection: both sides want it, the
  // answer had an end of its own, nothing came behind it.
  bool KeepsConnection() const;
  // REQUIRES: kBroken. What is wrong, in a few words.
  const std::string& Problem() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ANSWER_PARSER_H_
