#include "adapters/engine_http/answer_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "adapters/engine_http/engine_request.h"
#include "base/ascii.h"
#include "base/last_chunk.h"

namespace kvrouter {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

// A body that is not kept: the parser hands each piece on as it passes.
struct PassingBody {
  struct value_type {
    AnswerSink* sink = nullptr;
  };
  class reader {
   public:
    template <bool kRequest, class Fields>
    reader(http::header<kRequest, Fields>&, value_type& target) : target_(target) {}
    void init(const boost::optional<uint64_t>&, ErrorCode& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, ErrorCode& error) {
      error = {};
      size_t bytes = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
           ++it) {
        const asio::const_buffer piece = *it;
        bytes += piece.size();
        if (piece.size() > 0) {
          target_.sink->OnPiece({static_cast<const char*>(piece.data()), piece.size()});
        }
      }
      return bytes;
    }
    void finish(ErrorCode& error) { error = {}; }

   private:
    value_type& target_;
  };
};

using BeastParser = http::response_parser<PassingBody>;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Fields that the Connection field names belong to the connection, too.
std::vector<std::string> ConnectionOptions(const http::fields& fields) {
  std::vector<std::string> options;
  for (const auto& field : fields) {
    if (field.name() != http::field::connection) continue;
    const std::string value = AsciiLower(View(field.value()));
    size_t begin = 0;
    while (begin < value.size()) {
      const size_t end = std::min(value.find_first_of(", \t", begin), value.size());
      if (end > begin) options.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return options;
}

EngineReplyHead TakeHead(BeastParser::value_type& message) {
  EngineReplyHead head;
  head.status = static_cast<int>(message.result_int());
  const std::vector<std::string> options = ConnectionOptions(message);
  for (const auto& field : message) {
    std::string name = AsciiLower(View(field.name_string()));
    if (IsConnectionField(name)) continue;
    if (std::find(options.begin(), options.end(), name) != options.end()) continue;
    head.headers.emplace_back(std::move(name), View(field.value()));
  }
  message.base().clear();  // a stream may be long: its fields need not be kept
  return head;
}

}  // namespace

struct AnswerParser::Impl {
  Impl(AnswerLimits l, bool h) : limits(l), head_only(h) { Restart(); }

  void Restart() {
    parser.emplace();
    parser->header_limit(limits.max_head_bytes);
    parser->body_limit(boost::none);
    parser->skip(head_only);
    parser->eager(false);
  }

  State Break(std::string what) {
    problem = std::move(what);
    return State::kBroken;
  }

  // Takes bytes off the front of `bytes` until more are needed or the answer is whole.
  State Parse(std::string_view* bytes, AnswerSink* sink);
  State AfterHead(AnswerSink* sink);

  const AnswerLimits limits;
  const bool head_only;
  std::optional<BeastParser> parser;
  std::string held;  // came, but cannot be understood before more comes
  std::string problem;
  uint32_t interim_answers = 0;
  bool head_told = false;
  bool ends_with_connection = false;
  bool more_behind = false;
};

AnswerParser::State AnswerParser::Impl::AfterHead(AnswerSink* sink) {
  const unsigned status = parser->get().result_int();
  if (status == 101) return Break("switches protocols unasked");
  if (status < 200) {
    if (status < 100) return Break(fmt::format("status {}", status));
    if (++interim_answers > limits.max_interim_answers) {
      return Break(fmt::format("more than {} interim answers", limits.max_interim_answers));
    }
    Restart();
    return State::kNeedsMore;
  }
  ends_with_connection = !parser->is_done() && parser->need_eof();
  head_told = true;
  parser->get().body().sink = sink;
  parser->eager(true);
  sink->OnHead(TakeHead(parser->get()));
  return parser->is_done() ? State::kDone : State::kNeedsMore;
}

AnswerParser::State AnswerParser::Impl::Parse(std::string_view* bytes, AnswerSink* sink) {
  while (!bytes->empty()) {
    ErrorCode error;
    parser->get().body().sink = sink;
    const size_t used = parser->put(asio::const_buffer(bytes->data(), bytes->size()), error);
    bytes->remove_prefix(used);
    if (error && error != http::error::need_more) {
      return Break(error == http::error::header_limit
                       ? fmt::format("head of more than {} bytes", limits.max_head_bytes)
                       : error.message());
    }
    if (!head_told && parser->is_header_done()) {
      const State state = AfterHead(sink);
      if (state != State::kNeedsMore) return state;
      continue;
    }
    if (parser->is_done()) return State::kDone;
    if (error || used == 0) break;  // no more can be understood
  }
  return State::kNeedsMore;
}

AnswerParser::AnswerParser(AnswerLimits limits, bool head_only)
    : impl_(std::make_unique<Impl>(limits, head_only)) {}

AnswerParser::~AnswerParser() = default;

AnswerParser::State AnswerParser::Feed(std::string_view bytes, AnswerSink* sink) {
  Impl& impl = *impl_;
  std::string joined;
  if (!impl.held.empty()) {
    joined = std::move(impl.held);
    impl.held = std::string();
    joined.append(bytes);
    bytes = joined;
    if (impl.head_told && MayBeCutLastChunk(bytes)) {
      impl.held = std::move(joined);
      return State::kNeedsMore;
    }
  }
  const State state = impl.Parse(&bytes, sink);
  if (state == State::kDone) impl.more_behind = !bytes.empty();
  if (state != State::kNeedsMore || bytes.empty()) return state;
  if (bytes.size() > impl.limits.max_head_bytes) {
    return impl.Break(fmt::format("a line of more than {} bytes", impl.limits.max_head_bytes));
  }
  impl.held = bytes;
  return state;
}

AnswerParser::State AnswerParser::FeedEnd() {
  Impl& impl = *impl_;
  if (!impl.head_told || !impl.ends_with_connection) {
    return impl.Break(impl.head_told ? "closed in the middle of the body"
                                     : "closed in the middle of the head");
  }
  ErrorCode error;
  impl.parser->put_eof(error);
  return error ? impl.Break(error.message()) : State::kDone;
}

bool AnswerParser::HeadDone() const { return impl_->head_told; }

bool AnswerParser::KeepsConnection() const {
  return !impl_->more_behind && !impl_->ends_with_connection && impl_->parser->keep_alive();
}

const std::string& AnswerParser::Problem() const { return impl_->problem; }

}  // namespace kvrouter
