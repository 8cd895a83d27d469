#include "dispatch/answer_passing.h"

#include <utility>

#include "dispatch/dispatcher.h"
#include "dispatch/request_headers.h"

namespace kvrouter {
namespace {

// Of events without output, such as the role of a chat's answer, more is not worth holding.
constexpr size_t kMaxHeldStreamBytes = 64 << 10;

bool IsEventStream(const EngineReplyHead& head) {
  return head.status == 200 &&
         FindHeader(head.headers, "content-type").starts_with("text/event-stream");
}

}  // namespace

void AnswerPassing::Reset() {
  head_ = {};
  has_head_ = is_stream_ = error_cut_ = false;
  held_.clear();
  scanner_ = {};
  rest_ = {};
  whole_reply_.reset();
}

void AnswerPassing::Head(EngineReplyHead head) {
  head_ = std::move(head);
  has_head_ = true;
  is_stream_ = IsEventStream(head_);
}

bool AnswerPassing::StreamBody(std::string_view piece) {
  const std::string_view whole = scanner_.Feed(piece);
  if (begun_) return whole.empty() || client_->Write(whole);
  held_ += whole;
  if (scanner_.error() && !scanner_.output_begun()) return true;
  if (!scanner_.output_begun() && held_.size() <= kMaxHeldStreamBytes) return true;
  if (!scanner_.output_begun()) observer_->OnOutgrown(OutgrownHold::kStreamHead);
  if (scanner_.in_long_event()) observer_->OnOutgrown(OutgrownHold::kFirstEvent);
  return BeginWith(std::exchange(held_, {}));
}

bool AnswerPassing::Body(std::string_view piece) {
  if (is_stream_) return StreamBody(piece);
  if (begun_) return client_->Write(piece);
  held_ += piece;
  if (held_.size() <= max_held_bytes_) return true;
  if (head_.status >= 400) {
    // Of an error the beginning has to do.
    held_.resize(max_held_bytes_);
    if (!std::exchange(error_cut_, true)) observer_->OnOutgrown(OutgrownHold::kError);
    return true;
  }
  observer_->OnOutgrown(OutgrownHold::kReply);
  return BeginWith(std::exchange(held_, {}));
}

bool AnswerPassing::BeginWith(std::string_view first) {
  begun_ = true;
  client_->Begin(head_.status, WithExtra(ClientHeaders(std::move(head_.headers))));
  return first.empty() || client_->Write(first);
}

void AnswerPassing::ReadRest() {
  if (is_stream_) rest_ = scanner_.TakeRest();
}

void AnswerPassing::End() {
  if (is_stream_) {
    if (!begun_) BeginWith(std::exchange(held_, {}));
    if (rest_.empty()) ReadRest();
    if (!rest_.empty()) client_->Write(rest_);
    client_->End();
  } else if (begun_) {
    client_->End();
  } else {
    begun_ = true;
    client_->Complete(head_.status, WithExtra(ClientHeaders(std::move(head_.headers))),
                      std::move(held_));
  }
}

void AnswerPassing::Pass(HeldAnswer answer) {
  Reset();
  head_ = std::move(answer.head);
  has_head_ = true;
  held_ = std::move(answer.body);
  End();
}

bool AnswerPassing::error_inside() const {
  if (is_stream_) return scanner_.error();
  return has_head_ && head_.status < 300 && !begun_ && WholeReply().is_error;
}

uint64_t AnswerPassing::output_tokens() const {
  if (is_stream_) return scanner_.output_tokens();
  return begun_ ? 0 : WholeReply().usage.completion_tokens.value_or(0);
}

OpenAiUsage AnswerPassing::usage() const {
  if (is_stream_) return scanner_.usage();
  return begun_ ? OpenAiUsage{} : WholeReply().usage;
}

const OpenAiReply& AnswerPassing::WholeReply() const {
  if (!whole_reply_) whole_reply_ = std::make_unique<const OpenAiReply>(ReadOpenAiReply(held_));
  return *whole_reply_;
}

HeaderList AnswerPassing::WithExtra(HeaderList headers) const {
  headers.insert(headers.end(), extra_headers_.begin(), extra_headers_.end());
  return headers;
}

void AnswerPassing::Fail(int status, std::string_view message, std::string_view code,
                         std::string_view param) {
  const std::string error = OpenAiError(status, message, code, param);
  if (!begun_) {
    begun_ = true;
    client_->Complete(status, WithExtra({{"content-type", "application/json"}}), error);
  } else if (!is_stream_ || scanner_.in_long_event()) {
    client_->Cut();
  } else {
    // An error event of the engine says it better, and one is enough.
    if (!scanner_.error()) client_->Write("data: " + error + "\n\n");
    client_->End();
  }
}

}  // namespace kvrouter
