#include "adapters/openai/http_client_reply.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvrouter {
namespace {

// Of the connection to the engine, not of the answer.
constexpr std::array<std::string_view, 5> kFraming = {"connection", "content-length", "keep-alive",
                                                      "transfer-encoding", "upgrade"};

HttpResponse HeadOf(int status, HeaderList headers) {
  HttpResponse head{.status = status, .content_type = "", .headers = {}, .body = ""};
  for (auto& [name, value] : headers) {
    if (std::find(kFraming.begin(), kFraming.end(), name) != kFraming.end()) continue;
    if (name == "content-type") {
      head.content_type = std::move(value);
    } else {
      head.headers.emplace_back(std::move(name), std::move(value));
    }
  }
  return head;
}

}  // namespace

void HttpClientReply::Complete(int status, HeaderList headers, std::string body) {
  if (responder_ == nullptr) return;
  HttpResponse answer = HeadOf(status, std::move(headers));
  answer.body = std::move(body);
  responder_->Complete(std::move(answer));
}

void HttpClientReply::Begin(int status, HeaderList headers) {
  if (responder_ != nullptr) responder_->Begin(HeadOf(status, std::move(headers)));
}

bool HttpClientReply::Write(std::string_view piece) {
  return responder_ == nullptr || responder_->Write(std::string(piece));
}

void HttpClientReply::End() {
  if (responder_ != nullptr) responder_->End();
}

void HttpClientReply::Cut() { responder_.reset(); }

void HttpClientReply::OnGone(std::function<void()> gone) {
  if (responder_ != nullptr) responder_->OnGone(std::move(gone));
}

void HttpClientReply::OnDrained(std::function<void()> drained) {
  if (responder_ != nullptr) responder_->OnDrained(std::move(drained));
}

}  // namespace kvrouter
