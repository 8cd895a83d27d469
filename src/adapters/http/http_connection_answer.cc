#include <boost/asio/post.hpp>
#include <utility>

#include "adapters/http/http_connection.h"
#include "adapters/http/http_message.h"

// From a whole request to its answer on the wire.

namespace kvrouter {

namespace asio = boost::asio;

namespace {

// What a sent piece's memory is kept for: the next one, if it was short.
constexpr size_t kKeptPieceBytes = 1024;

}  // namespace

void HttpConnection::Dispatch() {
  const HttpMessage& message = parser_->get();
  HttpRequest request = ToHttpRequest(message, std::move(body_));
  keep_alive_ = message.keep_alive();
  http_1_0_ = message.version() < 11;
  head_only_ = request.method == "HEAD";
  answer_complete_ = false;

  exchange_ = std::make_shared<HttpExchange>(
      [self = shared_from_this()](HttpExchange::Step step, HttpResponse response, bool pauses) {
        if (pauses) CountOne(&self->server_->streams_paused);
        asio::post(self->executor(), [self, step, response = std::move(response)]() mutable {
          self->OnStep(step, std::move(response));
        });
      },
      server_->config.pause_unsent_bytes);
  const bool has_body = !request.body.empty();
  if (!CallHandler(server_->config, server_->routes, &request, MakeResponder(exchange_)))
    CountOne(&server_->unrouted);
  // A body that went along is held until the answer is sent, and so is its room.
  if (has_body && request.body.empty()) answer_room_bytes_ += std::exchange(body_room_bytes_, 0);
  request = {};
  ReturnBody();
  SkipEmptyLines();
  if (exchange_->Finished() || buffer_.size() > 0) return;
  // Nothing is to be expected but that the client leaves: an idle stream holds no more than that.
  buffer_.clear();
  buffer_.shrink_to_fit();
  StartRead(kNoticeBytes);
}

void HttpConnection::OnStep(HttpExchange::Step step, HttpResponse response) {
  if (phase_ != Phase::kAnswering) return;
  if (server_->stopping.load()) keep_alive_ = false;
  const bool streams = step == HttpExchange::Step::kBegin || step == HttpExchange::Step::kWrite;
  const size_t arrived_bytes = streams ? response.body.size() : 0;
  switch (step) {
    case HttpExchange::Step::kUnanswered:
      response = Refusal(server_->config, 500, "the request was not answered");
      [[fallthrough]];
    case HttpExchange::Step::kComplete:
      if (!HoldAnswer(response.body.size())) {
        response = Refusal(server_->config, 503,
                           "too many request bodies and answers are held at this moment");
      }
      Append(FormatHead(response, {.keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      if (!head_only_) Append(std::move(response.body));
      answer_complete_ = true;
      break;
    case HttpExchange::Step::kBegin:
      framing_ = http_1_0_ ? BodyFraming::kUntilClose : BodyFraming::kChunked;
      if (http_1_0_) keep_alive_ = false;
      Append(FormatHead(response,
                        {.framing = framing_, .keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      [[fallthrough]];
    case HttpExchange::Step::kWrite:
      if (head_only_) break;
      Append(framing_ == BodyFraming::kChunked ? FormatChunk(response.body)
                                               : std::move(response.body));
      if (pending_bytes_ > server_->config.max_unsent_bytes) {
        CountOne(&server_->streams_overflowed);
        return Close();
      }
      break;
    case HttpExchange::Step::kEnd:
      if (!head_only_ && framing_ == BodyFraming::kChunked) Append(std::string(kLastChunk));
      answer_complete_ = true;
      break;
    case HttpExchange::Step::kAbort:  // behind what was written
      answer_complete_ = true;
      cut_ = true;
      break;
  }
  WriteMore();
  if (arrived_bytes > 0) TellQueued(arrived_bytes);
}

void HttpConnection::TellQueued(size_t arrived_bytes) {
  if (exchange_ == nullptr) return;
  // Its own reference: what waits for this may end the exchange.
  const std::shared_ptr<HttpExchange> exchange = exchange_;
  exchange->OnQueued(arrived_bytes, pending_bytes_ + in_flight_.size() - in_flight_sent_bytes_);
}

// The missing last chunk tells a client that there was more to come; one that reads until the end
// of the connection is told by its reset.
void HttpConnection::Cut() {
  ErrorCode ignored;
  if (framing_ == BodyFraming::kUntilClose)
    stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  Close();
}

// Small answers are bounded by the number of connections; large ones together by the buffers.
bool HttpConnection::HoldAnswer(uint64_t bytes) {
  if (bytes <= kSmallAnswerBytes) return true;
  if (server_->buffers.TryTake(bytes)) {
    answer_room_bytes_ += bytes;
    return true;
  }
  CountOne(&server_->answers_without_room);
  return false;
}

// Short pieces are sent together, long ones are not copied.
void HttpConnection::Append(std::string text) {
  pending_bytes_ += text.size();
  if (pending_.empty() || pending_.back().size() + text.size() > kSmallAnswerBytes) {
    pending_.push_back(std::move(text));
  } else {
    pending_.back() += text;
  }
}

void HttpConnection::WriteMore() {
  if (writing_) return;
  if (in_flight_sent_bytes_ == in_flight_.size()) {
    in_flight_.clear();
    if (in_flight_.capacity() > kKeptPieceBytes) in_flight_.shrink_to_fit();
    in_flight_sent_bytes_ = 0;
    if (pending_bytes_ == 0) {
      pending_.clear();
      if (answer_complete_) AnswerSent();
      return;
    }
    in_flight_ = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= in_flight_.size();
    if (in_flight_.empty()) return WriteMore();
  }
  writing_ = true;
  if (!write_timer_armed_) ArmWriteTimer();
  stream_.async_write_some(asio::buffer(in_flight_) + in_flight_sent_bytes_,
                           [self = shared_from_this()](ErrorCode error, size_t bytes) {
                             self->OnWritten(error, bytes);
                           });
}

void HttpConnection::OnWritten(ErrorCode error, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  in_flight_sent_bytes_ += bytes;
  progress_bytes_ += bytes;
  const bool all = in_flight_sent_bytes_ == in_flight_.size() && pending_bytes_ == 0;
  if (all || progress_bytes_ >= kWriteProgressBytes) DisarmWriteTimer();
  WriteMore();
  if (exchange_ != nullptr) TellQueued(0);
}

void HttpConnection::AnswerSent() {
  if (cut_) return Cut();
  if (exchange_ != nullptr) exchange_->Detach(/*delivered=*/true);
  exchange_.reset();
  answer_complete_ = false;
  in_flight_ = std::string();
  server_->buffers.Return(std::exchange(answer_room_bytes_, 0));
  if (client_done_ && buffer_.size() == 0) return Close();
  if (!keep_alive_ || evicted_ || server_->stopping.load()) return Drain();
  AwaitRequest();
}

}  // namespace kvrouter
