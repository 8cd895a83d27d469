#include "dispatch/sse_scanner.h"

#include <algorithm>

namespace kvrouter {
namespace {

// Room that the reader of JSON wants behind a text (json_cursor.h).
constexpr size_t kPadding = 64;

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::string_view SseScanner::Feed(std::string_view piece) {
  if (unread_) return piece;
  if (rest_.empty()) {
    const size_t whole = ReadEvents(piece, 0);
    rest_ = piece.substr(whole);
    if (rest_.size() <= kMaxEventBytes) return piece.substr(0, whole);
    rest_.clear();
    unread_ = output_begun_ = true;
    return piece;
  }
  // The line that the piece goes on with may have begun before it.
  const size_t last_line = rest_.rfind('\n');
  const size_t from = last_line == std::string::npos ? 0 : last_line + 1;
  const size_t scanned = rest_.size();
  rest_ += piece;
  const size_t whole =
      piece.find('\n') == std::string_view::npos ? 0 : ReadEvents(rest_, std::min(from, scanned));
  whole_.assign(rest_, 0, whole);
  rest_.erase(0, whole);
  if (rest_.size() > kMaxEventBytes) {
    unread_ = output_begun_ = true;
    whole_ += rest_;
    rest_.clear();
  }
  return whole_;
}

size_t SseScanner::ReadEvents(std::string_view text, size_t from) {
  size_t event = 0;  // where the one at hand begins
  size_t line = from;
  while (true) {
    const size_t end = text.find('\n', line);
    if (end == std::string_view::npos) return event;
    if (WithoutReturn(text.substr(line, end - line)).empty()) {
      ReadEvent(text.substr(event, line - event));
      event = end + 1;
    }
    line = end + 1;
  }
}

void SseScanner::ReadEvent(std::string_view event) {
  constexpr std::string_view kData = "data:";
  data_.clear();
  bool any = false;
  while (!event.empty()) {
    const size_t end = std::min(event.find('\n'), event.size());
    std::string_view line = WithoutReturn(event.substr(0, end));
    event.remove_prefix(std::min(end + 1, event.size()));
    if (!line.starts_with(kData)) continue;
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (any) data_.push_back('\n');
    any = true;
    if (data_.capacity() < data_.size() + line.size() + kPadding)
      data_.reserve(2 * (data_.size() + line.size()) + kPadding);
    data_ += line;
  }
  if (any) ReadData(data_);
}

void SseScanner::ReadData(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const OpenAiReply reply = ReadOpenAiReply(data_);
  if (!reply.is_json) {
    output_begun_ = true;  // whatever it is, the client shall have it
    return;
  }
  error_ = error_ || reply.is_error;
  finished_ = finished_ || reply.finished;
  output_begun_ = output_begun_ || reply.has_output || (reply.finished && !reply.is_error);
  output_tokens_ += reply.output_tokens;
  if (reply.usage.prompt_tokens) usage_.prompt_tokens = reply.usage.prompt_tokens;
  if (reply.usage.cached_tokens) usage_.cached_tokens = reply.usage.cached_tokens;
  if (reply.usage.completion_tokens) {
    usage_.completion_tokens = reply.usage.completion_tokens;
    output_tokens_ = std::max(output_tokens_, *reply.usage.completion_tokens);
  }
}

}  // namespace kvrouter
