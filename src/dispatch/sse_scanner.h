#ifndef KVROUTER_DISPATCH_SSE_SCANNER_H_
#define KVROUTER_DISPATCH_SSE_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dispatch/openai_reply.h"

namespace kvrouter {

// Reads an engine's event stream as it comes, in pieces of any size, and says how far it consists of
// whole events: so what is passed on can always be followed by an event of our own. The bytes
// themselves are not touched.
//
// Thread-compatible. Bound: one event; of a longer one than kMaxEventBytes nothing is read any
// more, and pieces are whole as they come.
class SseScanner {
 public:
  static constexpr size_t kMaxEventBytes = 1 << 20;

  // What may be passed on now, in order and without a gap over the calls: whole events. Valid until
  // the next call, and as long as `piece`.
  std::string_view Feed(std::string_view piece);
  // The rest, at the end of the stream.
  std::string_view Rest() const { return rest_; }

  bool output_begun() const { return output_begun_; }  // a token, or what we cannot read
  bool error() const { return error_; }                // an error event
  bool done() const { return done_; }                  // [DONE]
  bool finished() const { return finished_; }          // a choice gave its reason to end
  // As counted by events, or as the engine says.
  uint64_t output_tokens() const { return output_tokens_; }
  const OpenAiUsage& usage() const { return usage_; }

 private:
  // Of `text`, whose bytes before `from` have no line end: behind the last whole event.
  size_t ReadEvents(std::string_view text, size_t from);
  void ReadEvent(std::string_view event);
  void ReadData(std::string_view data);

  std::string rest_;   // of an event that is not whole yet
  std::string whole_;  // what the last Feed gave out, if it began in an earlier piece
  std::string data_;   // with room behind it for the reader
  bool unread_ = false;
  bool output_begun_ = false;
  bool error_ = false;
  bool done_ = false;
  bool finished_ = false;
  uint64_t output_tokens_ = 0;
  OpenAiUsage usage_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_SSE_SCANNER_H_
