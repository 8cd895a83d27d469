#ifndef KVROUTER_DISPATCH_ANSWER_PASSING_H_
#define KVROUTER_DISPATCH_ANSWER_PASSING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/client_reply.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/engine_link.h"
#include "dispatch/openai_reply.h"
#include "dispatch/sse_scanner.h"

namespace kvrouter {

// The way of an engine's answer to the client. Nothing reaches the client before it is worth it, so
// that until then another engine may be tried:
//
//   event stream   held until its first output; then whole events, so that an error of ours can
//                  always follow
//   anything else  held whole, up to a bound; beyond it passed on as it comes
//
// What was passed on in the end is the engine's answer, byte for byte, but for the usage that the
// client did not ask for.
//
// Thread-compatible. The client is called from inside of the calls.
class AnswerPassing {
 public:
  // The observer outlives it, and is told what is held no more.
  AnswerPassing(std::shared_ptr<ClientReply> client, uint64_t max_held_bytes,
                DispatchObserver* observer)
      : client_(std::move(client)), max_held_bytes_(max_held_bytes), observer_(observer) {}

  // Go with whatever answer the client gets.
  void AddHeaders(HeaderList headers) { extra_headers_ = std::move(headers); }

  // ---- An engine's answer; Reset before that of another attempt. ----
  void Reset();
  // A stream's event that only brings the usage is read and left out: the engine was asked for it
  // on our account. Between Reset and Head.
  void WithholdUsage() { scanner_.WithholdUsage(); }
  void Head(EngineReplyHead head);
  // False: the client does not keep up.
  bool Body(std::string_view piece);
  // It came whole.
  bool CanEnd() const { return begun_ || !is_stream_ || scanner_.done() || scanner_.finished(); }
  // It has ended: what is left of a stream is read as an event, so that what is known of the answer
  // is all there is. REQUIRES: CanEnd().
  void ReadRest();
  // REQUIRES: CanEnd().
  void End();

  // ---- What is known of it ----
  bool has_head() const { return has_head_; }
  int status() const { return head_.status; }
  bool is_stream() const { return is_stream_; }
  // The client has got something: no other attempt is possible.
  bool begun() const { return begun_; }
  bool output_begun() const { return is_stream_ && scanner_.output_begun(); }
  // An error inside of a good answer: an event of a stream, or of a whole answer its text.
  bool error_inside() const;
  // A stream's error in place of output that speaks against the request: vLLM finds some of what is
  // wrong with one (a grammar, say) only when it has begun its answer, with status 200.
  bool refused_inside() const {
    return is_stream_ && !begun_ && scanner_.error() && scanner_.error_code() >= 400 &&
           scanner_.error_code() < 500;
  }
  uint64_t output_tokens() const;
  OpenAiUsage usage() const;

  // ---- Otherwise ----
  // What is held, to be the client's answer after all if nothing better comes. REQUIRES: !begun().
  struct HeldAnswer {
    EngineReplyHead head;
    std::string body;
  };
  HeldAnswer TakeHeld() { return {std::move(head_), std::move(held_)}; }
  void Pass(HeldAnswer answer);
  // Our own error: an answer of its own, or an event behind what the client has.
  void Fail(int status, std::string_view message, std::string_view code,
            std::string_view param = {});

 private:
  bool StreamBody(std::string_view piece);
  bool BeginWith(std::string_view first);
  HeaderList WithExtra(HeaderList headers) const;
  const OpenAiReply& WholeReply() const;

  const std::shared_ptr<ClientReply> client_;
  const uint64_t max_held_bytes_;
  DispatchObserver* const observer_;
  HeaderList extra_headers_;
  EngineReplyHead head_;
  bool has_head_ = false;
  bool is_stream_ = false;
  bool begun_ = false;
  bool error_cut_ = false;
  std::string held_;
  SseScanner scanner_;
  std::string_view rest_;  // read already, to be passed on at the end; in scanner_
  mutable std::unique_ptr<const OpenAiReply> whole_reply_;  // of held_; null: not read yet
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_ANSWER_PASSING_H_
