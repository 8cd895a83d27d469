#include "dispatch/render_probe.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "dispatch/request_headers.h"

namespace kvrouter {
namespace {

constexpr size_t kMaxAnswerBytes = 4 << 20;
constexpr uint64_t kMaxTokens = 1 << 20;
// Templates may say what day it is.
constexpr std::chrono::hours kValidFor{1};
constexpr size_t kMaxKnown = 65'536;

}  // namespace

std::string ProbeBody(std::string_view model) {
  std::string body = R"({"model":)";
  AppendJsonString(model, &body);
  body +=
      R"(,"messages":[{"role":"system","content":"You answer briefly."},)"
      R"({"role":"user","content":"  Name a colour.\nThen another one: \u00fc, \u4e2d, 1234567."},)"
      R"({"role":"assistant","content":"Red. Blue."},)"
      R"({"role":"user","content":"Thanks!"}]})";
  return body;
}

bool RenderProbe::Alike(const KnownPartition& partition, WorkerId a, WorkerId b,
                        const HeaderList& headers) {
  TokenIds of_a;
  TokenIds of_b;
  for (const KnownEngine& engine : partition.engines) {
    if (engine.id == a) of_a = IdsOf(partition, engine, headers);
    if (engine.id == b) of_b = IdsOf(partition, engine, headers);
  }
  return of_a && of_b && *of_a == *of_b;
}

bool RenderProbe::AllAlike(const KnownPartition& partition, const HeaderList& headers) {
  bool alike = !partition.engines.empty();
  TokenIds first;
  for (const KnownEngine& engine : partition.engines) {
    const TokenIds ids = IdsOf(partition, engine, headers);
    if (!first) first = ids;
    alike = alike && ids && *ids == *first;
  }
  return alike;
}

TokenIds RenderProbe::IdsOf(const KnownPartition& partition, const KnownEngine& engine,
                            const HeaderList& headers) {
  const MonotonicTime now = parts_.clock->Now();
  TokenIds ids;
  {
    MutexLock lock(mu_);
    if (stopped_) return nullptr;
    if (known_.size() > kMaxKnown) known_.clear();  // of workers long gone
    Known& known = known_[engine.id];
    if (known.incarnation != engine.incarnation) {
      known = {.incarnation = engine.incarnation, .ids = nullptr};
    }
    ids = known.ids;
    if (known.asking || now < known.ask_at || asking_ >= kMaxAsking) return ids;
    known.asking = true;
    ++asking_;
  }
  Ask(partition.model_name, engine, TokenizePath::kTokenize, headers);
  return ids;
}

void RenderProbe::Ask(const std::string& model, const KnownEngine& engine, TokenizePath path,
                      const HeaderList& headers) {
  EngineCall call;
  call.base_url = engine.address;
  call.path = TokenizeUrl(path);
  call.headers = HeadersOfOwnCall(headers);
  call.body = std::make_shared<const std::string>(ProbeBody(model));
  call.head_timeout = call.idle_timeout = parts_.settings->Current()->tokenize.timeout;
  parts_.link->Send(std::move(call),
                    std::make_shared<AnswerCollector>(
                        kMaxAnswerBytes, [self = weak_from_this(), model, engine, path,
                                          headers](const CollectedAnswer& answer) {
                          if (const auto probe = self.lock())
                            probe->OnAnswer(model, engine, path, headers, answer);
                        }));
}

void RenderProbe::OnAnswer(const std::string& model, const KnownEngine& engine, TokenizePath path,
                           const HeaderList& headers, const CollectedAnswer& answer) {
  TokenizeReading reading = ReadTokenizeAnswer(answer, kMaxTokens);
  const bool render_next = reading.not_offered && path == TokenizePath::kTokenize;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    if (!render_next) {
      --asking_;
      const auto known = known_.find(engine.id);
      if (known == known_.end() || known->second.incarnation != engine.incarnation) return;
      known->second.asking = false;
      known->second.ids = std::move(reading.ids);
      known->second.ask_at =
          parts_.clock->Now() + (known->second.ids
                                     ? std::chrono::nanoseconds(kValidFor)
                                     : parts_.settings->Current()->tokenize.breaker_open);
      return;
    }
  }
  Ask(model, engine, TokenizePath::kChatRender, headers);
}

void RenderProbe::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
}

}  // namespace kvrouter
