#ifndef KVROUTER_DISPATCH_ANSWER_COLLECTOR_H_
#define KVROUTER_DISPATCH_ANSWER_COLLECTOR_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "dispatch/engine_link.h"

namespace kvrouter {

struct CollectedAnswer {
  EngineEnd end = EngineEnd::kComplete;
  std::string detail;
  int status = 0;  // 0: no head came
  std::string body;
  bool too_long = false;  // `body` is the beginning
};

// Waits for an answer that is wanted whole.
class AnswerCollector final : public EngineReply {
 public:
  using Done = std::function<void(CollectedAnswer)>;
  AnswerCollector(size_t max_bytes, Done done) : max_bytes_(max_bytes), done_(std::move(done)) {}

  void OnHead(EngineReplyHead head) override { answer_.status = head.status; }
  void OnBody(std::string_view piece) override {
    const size_t room = max_bytes_ - answer_.body.size();
    answer_.too_long = answer_.too_long || piece.size() > room;
    answer_.body += piece.substr(0, room);
  }
  void OnEnd(EngineEnd end, std::string_view detail) override {
    answer_.end = end;
    answer_.detail = detail;
    done_(std::move(answer_));
  }

 private:
  const size_t max_bytes_;
  const Done done_;
  CollectedAnswer answer_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_ANSWER_COLLECTOR_H_
