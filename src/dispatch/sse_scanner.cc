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
  withheld_.clear();
  if (rest_.empty()) {
    size_t begin = 0;
    if (in_long_event_) {
      const auto end = EndOfLongEvent(piece);
      if (!end) return piece;
      in_long_event_ = false;
      begin = *end;
    }
    size_t whole = ReadEvents(piece, begin, begin);
    if (piece.size() - whole > kMaxEventBytes) {
      BeginLongEvent(piece.substr(whole));
      whole = piece.size();
    }
    rest_ = piece.substr(whole);
    if (withheld_.empty()) return piece.substr(0, whole);
    TakeAllButWithheld(piece.substr(0, whole));
    return whole_;
  }
  // The line that the piece goes on with may have begun before it.
  const size_t last_line = rest_.rfind('\n');
  const size_t line = last_line == std::string::npos ? 0 : last_line + 1;
  rest_ += piece;
  size_t whole = piece.find('\n') == std::string_view::npos ? 0 : ReadEvents(rest_, 0, line);
  if (rest_.size() - whole > kMaxEventBytes) {
    BeginLongEvent(std::string_view(rest_).substr(whole));
    whole = rest_.size();
  }
  TakeAllButWithheld(std::string_view(rest_).substr(0, whole));
  rest_.erase(0, whole);
  return whole_;
}

std::string_view SseScanner::TakeRest() {
  whole_ = std::exchange(rest_, {});
  if (ReadEvent(whole_) && withhold_usage_) whole_.clear();
  return whole_;
}

size_t SseScanner::ReadEvents(std::string_view text, size_t event, size_t line) {
  while (true) {
    const size_t end = text.find('\n', line);
    if (end == std::string_view::npos) return event;
    if (WithoutReturn(text.substr(line, end - line)).empty()) {
      const bool only_usage = ReadEvent(text.substr(event, line - event));
      if (only_usage && withhold_usage_) withheld_.emplace_back(event, end + 1);
      event = end + 1;
    }
    line = end + 1;
  }
}

void SseScanner::TakeAllButWithheld(std::string_view events) {
  whole_.clear();
  size_t kept = 0;
  for (const auto& [begin, end] : withheld_) {
    whole_ += events.substr(kept, begin - kept);
    kept = end;
  }
  whole_ += events.substr(kept);
}

void SseScanner::BeginLongEvent(std::string_view begin) {
  in_long_event_ = output_begun_ = true;
  const size_t last_line = begin.rfind('\n');
  line_begin_ = begin.substr(last_line == std::string_view::npos ? 0 : last_line + 1).substr(0, 2);
}

std::optional<size_t> SseScanner::EndOfLongEvent(std::string_view piece) {
  size_t line = 0;
  while (true) {
    const size_t end = std::min(piece.find('\n', line), piece.size());
    line_begin_ += piece.substr(line, std::min(end - line, 2 - line_begin_.size()));
    if (end == piece.size()) return std::nullopt;
    if (WithoutReturn(line_begin_).empty()) return end + 1;
    line_begin_.clear();
    line = end + 1;
  }
}

bool SseScanner::ReadEvent(std::string_view event) {
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
  return any && ReadData(data_);
}

bool SseScanner::ReadData(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return false;
  }
  const OpenAiReply reply = ReadOpenAiReply(data_);
  if (!reply.is_json) {
    output_begun_ = true;  // whatever it is, the client shall have it
    return false;
  }
  error_ = error_ || reply.is_error;
  if (reply.is_error) error_code_ = reply.error_code;
  finished_ = finished_ || reply.finished;
  output_begun_ = output_begun_ || reply.has_output || (reply.finished && !reply.is_error);
  output_tokens_ += reply.output_tokens;
  if (reply.usage.prompt_tokens) usage_.prompt_tokens = reply.usage.prompt_tokens;
  if (reply.usage.cached_tokens) usage_.cached_tokens = reply.usage.cached_tokens;
  if (reply.usage.completion_tokens) {
    usage_.completion_tokens = reply.usage.completion_tokens;
    output_tokens_ = std::max(output_tokens_, *reply.usage.completion_tokens);
  }
  return reply.only_usage;
}

}  // namespace kvrouter
