#ifndef KVROUTER_DISPATCH_SSE_SCANNER_H_
#define KVROUTER_DISPATCH_SSE_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/openai_reply.h"

namespace kvrouter {

// Reads an engine's event stream as it comes, in pieces of any size, and says how far it consists
// of whole events: so what is passed on can always be followed by an event of our own. The bytes
// themselves are not touched; on demand, whole events that only bring the usage are left out.
//
// Thread-compatible. Bound: one event; a longer one than kMaxEventBytes is not read, and given out
// as it comes.
class SseScanner {
 public:
  static constexpr size_t kMaxEventBytes = 1 << 20;

  // Events that only bring the usage are read, but not given out: who asked for it is not the
  // client. Before the first Feed.
  void WithholdUsage() { withhold_usage_ = true; }

  // What may be passed on now, in order and without a gap over the calls: whole events. Valid until
  // the next call, and as long as `piece`.
  std::string_view Feed(std::string_view piece);
  // What is left of an event that is not whole; Take: at the end of the stream, read as if it were.
  std::string_view Rest() const { return rest_; }
  std::string_view TakeRest();
  // What was given out ends inside of an event.
  bool in_long_event() const { return in_long_event_; }

  bool output_begun() const { return output_begun_; }  // a token, or what we cannot read
  bool error() const { return error_; }                // an error event
  uint64_t error_code() const { return error_code_; }  // of the last one; 0: it names none
  bool done() const { return done_; }                  // [DONE]
  bool finished() const { return finished_; }          // a choice gave its reason to end
  // As counted by events, or as the engine says.
  uint64_t output_tokens() const { return output_tokens_; }
  const OpenAiUsage& usage() const { return usage_; }

 private:
  // Events from `event` on; the one there has no line end between it and `line`. Answers behind the
  // last whole one.
  size_t ReadEvents(std::string_view text, size_t event, size_t line);
  // Both: whether it only brings the usage.
  bool ReadEvent(std::string_view event);
  bool ReadData(std::string_view data);
  void BeginLongEvent(std::string_view begin);
  // Behind it, if the piece ends it.
  std::optional<size_t> EndOfLongEvent(std::string_view piece);
  // Of whole events, into whole_.
  void TakeAllButWithheld(std::string_view events);

  std::string rest_;   // of an event that is not whole yet
  std::string whole_;  // what was given out last, if it is not in one piece
  std::string data_;   // with room behind it for the reader
  std::vector<std::pair<size_t, size_t>> withheld_;  // of the text at hand
  std::string line_begin_;  // of the last line of a long event: two bytes at most
  bool withhold_usage_ = false;
  bool in_long_event_ = false;
  bool output_begun_ = false;
  bool error_ = false;
  uint64_t error_code_ = 0;
  bool done_ = false;
  bool finished_ = false;
  uint64_t output_tokens_ = 0;
  OpenAiUsage usage_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_SSE_SCANNER_H_
