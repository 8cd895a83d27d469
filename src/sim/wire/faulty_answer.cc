#include "sim/wire/faulty_answer.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/wire/completion_reply.h"
#include "sim/wire/json_response.h"

namespace kvrouter::sim {
namespace {

// Nobody answers any more; the connection stays until the client leaves.
void Stall(const std::shared_ptr<HttpResponder>& responder) {
  responder->OnGone([responder] {});
}

// All but the damage is passed on. Thread-compatible, as its user is.
class Damaged final : public HttpResponder {
 public:
  Damaged(const FaultRule& rule, std::shared_ptr<HttpResponder> inner,
          std::function<void()> restart)
      : rule_(rule), inner_(std::move(inner)), restart_(std::move(restart)) {}

  void Complete(HttpResponse response) override {
    if (BreaksMidway()) {
      response.body.resize(response.body.size() / 2);
      inner_->Begin(std::move(response));
      return Break();
    }
    if (rule_.kind == FaultKind::kNoHandshake || rule_.kind == FaultKind::kWrongHandshake) {
      response.body = ChangeHandshake(response.body);
    }
    inner_->Complete(std::move(response));
    if (rule_.kind == FaultKind::kRestart) restart_();
  }
  void Begin(HttpResponse head) override { inner_->Begin(std::move(head)); }
  bool Write(std::string chunk) override {
    if (broken_) return true;
    if (BreaksMidway() && pieces_++ >= rule_.pieces) {
      Break();
      return true;
    }
    return inner_->Write(std::move(chunk));
  }
  void End() override {
    if (broken_) return;
    if (BreaksMidway()) return Break();
    inner_->End();
    if (rule_.kind == FaultKind::kRestart) restart_();
  }
  void Cut() override { inner_->Cut(); }
  // A cut is the engine's own doing, but the client is as gone.
  bool Cancelled() const override {
    return (broken_ && rule_.kind == FaultKind::kCutMidStream) || inner_->Cancelled();
  }
  void OnGone(std::function<void()> gone) override { inner_->OnGone(std::move(gone)); }
  void OnDrained(std::function<void()> drained) override { inner_->OnDrained(std::move(drained)); }

 private:
  bool BreaksMidway() const {
    return rule_.kind == FaultKind::kCutMidStream || rule_.kind == FaultKind::kStallMidStream;
  }
  void Break() {
    broken_ = true;
    if (rule_.kind == FaultKind::kStallMidStream) return Stall(inner_);
    inner_->Cut();
  }
  std::string ChangeHandshake(const std::string& body) const {
    auto answer = nlohmann::ordered_json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object() || !answer.contains("kv_transfer_params")) return body;
    auto& handshake = answer["kv_transfer_params"];
    if (rule_.kind == FaultKind::kNoHandshake) {
      handshake = nullptr;
    } else if (handshake.is_object()) {
      handshake["remote_request_id"] = "of-another-request";
    }
    return answer.dump();
  }

  const FaultRule rule_;
  const std::shared_ptr<HttpResponder> inner_;
  const std::function<void()> restart_;
  uint64_t pieces_ = 0;
  bool broken_ = false;
};

void Refuse(HttpResponder& responder, int status, const char* type) {
  responder.Complete(JsonResponse(status, ErrorBody("a fault was asked for", type, status)));
}

}  // namespace

std::shared_ptr<HttpResponder> FaultyAnswer(const FaultRule& rule,
                                            std::shared_ptr<HttpResponder> responder,
                                            std::function<void()> restart) {
  switch (rule.kind) {
    case FaultKind::kStallBeforeHead:
      Stall(responder);
      return nullptr;
    case FaultKind::kCutBeforeHead:
      responder->Cut();
      return nullptr;
    case FaultKind::kHttp500:
      Refuse(*responder, 500, "internal_server_error");
      return nullptr;
    case FaultKind::kHttp429:
      Refuse(*responder, 429, "rate_limit_error");
      return nullptr;
    case FaultKind::kSlowHandshake:
      return responder;
    case FaultKind::kStallMidStream:
    case FaultKind::kCutMidStream:
    case FaultKind::kWrongHandshake:
    case FaultKind::kNoHandshake:
    case FaultKind::kRestart:
      break;
  }
  return std::make_shared<Damaged>(rule, std::move(responder), std::move(restart));
}

}  // namespace kvrouter::sim
