#include "dispatch/tokenizer.h"

#include <utility>

#include "dispatch/request_headers.h"

namespace kvrouter {
namespace {

constexpr uint32_t kMaxEngines = 2;
constexpr size_t kMaxAnswerBytes = 64 << 20;

}  // namespace

std::string Tokenizer::KeyOf(const Text& text) {
  std::string key;
  key.reserve(text.partition->model_name.size() + text.partition->routing_group.size() +
              text.ask.size() + 3);
  key.append(text.partition->model_name).push_back('\0');
  key.append(text.partition->routing_group).push_back('\0');
  key.push_back(text.chat_body ? 'c' : 'p');
  key.append(text.ask);
  return key;
}

Tokenizer::Health& Tokenizer::HealthOf(const KnownPartition& partition) {
  return health_[{partition.model_name, partition.routing_group}];
}

void Tokenizer::Tokenize(Text text, Done done) {
  auto config = parts_.settings->Current();
  if (!config->tokenize.enabled) {
    parts_.observer->OnTokenize(TokenizeOutcome::kDisabled, {});
    done(nullptr);
    return;
  }
  auto flight = std::make_shared<Flight>();
  flight->key = KeyOf(text);
  if (TokenIds ids = cache_.Find(flight->key)) {
    parts_.observer->OnTokenize(TokenizeOutcome::kCached, {});
    done(std::move(ids));
    return;
  }
  flight->text = std::move(text);
  flight->config = std::move(config);
  flight->started = parts_.clock->Now();
  flight->waiting.push_back(done);
  bool joined = false;
  if (const auto refused = Admit(flight, &joined)) {
    parts_.observer->OnTokenize(*refused, {});
    done(nullptr);
  } else if (!joined) {
    Send(flight);
  }
}

std::optional<TokenizeOutcome> Tokenizer::Admit(const std::shared_ptr<Flight>& flight,
                                                bool* joined) {
  MutexLock lock(mu_);
  if (stopped_) return TokenizeOutcome::kOverLimit;
  if (const auto same = flights_.find(flight->key); same != flights_.end()) {
    same->second->waiting.push_back(std::move(flight->waiting.front()));
    *joined = true;
    return std::nullopt;
  }
  const KnownPartition& partition = *flight->text.partition;
  if (partition.engines.empty()) return TokenizeOutcome::kNoWorker;
  Health& health = HealthOf(partition);
  if (health.breaker.IsOpen(flight->started, flight->text.ask.size()))
    return TokenizeOutcome::kBreakerOpen;
  if (flights_.size() >= flight->config->tokenize.max_in_flight) return TokenizeOutcome::kOverLimit;
  flight->engine = health.next_engine++ % partition.engines.size();
  flight->engines_tried = 1;
  if (flight->text.chat_body) flight->path = health.chat_path;
  flights_.emplace(flight->key, flight);
  return std::nullopt;
}

void Tokenizer::Send(const std::shared_ptr<Flight>& flight) {
  const auto left = flight->started + flight->config->tokenize.timeout - parts_.clock->Now();
  EngineCall call;
  call.base_url = flight->text.partition->engines[flight->engine].address;
  call.path = TokenizeUrl(flight->path);
  call.headers = HeadersOfOwnCall(flight->text.headers);
  call.body = flight->path == TokenizePath::kChatRender
                  ? flight->text.chat_body
                  : std::make_shared<const std::string>(flight->text.ask);
  call.head_timeout = call.idle_timeout = std::max(left, std::chrono::nanoseconds(1));
  auto exchange = parts_.link->Send(
      std::move(call),
      std::make_shared<AnswerCollector>(kMaxAnswerBytes,
                                        [self = weak_from_this(), flight](CollectedAnswer answer) {
                                          if (const auto tokenizer = self.lock())
                                            tokenizer->OnAnswer(flight, std::move(answer));
                                        }));
  MutexLock lock(mu_);
  // Not of a flight that has ended meanwhile.
  const auto flying = flights_.find(flight->key);
  if (flying != flights_.end() && flying->second == flight) flight->exchange = std::move(exchange);
}

bool Tokenizer::GoesOn(Flight* flight, const TokenizeReading& reading,
                       const CollectedAnswer& answer) {
  if (parts_.clock->Now() >= flight->started + flight->config->tokenize.timeout) return false;
  if (reading.not_offered && flight->text.chat_body && flight->path == TokenizePath::kTokenize) {
    flight->path = TokenizePath::kChatRender;
    return true;
  }
  const size_t engines = flight->text.partition->engines.size();
  if (reading.outcome != TokenizeOutcome::kFailed || answer.end == EngineEnd::kShuttingDown ||
      flight->engines_tried >= kMaxEngines || engines < 2)
    return false;
  ++flight->engines_tried;
  flight->engine = (flight->engine + 1) % engines;
  return true;
}

void Tokenizer::Note(const Flight& flight, const TokenizeReading& reading) {
  Health& health = HealthOf(*flight.text.partition);
  const TokenizeConfig& config = flight.config->tokenize;
  const TokenizeBreaker::Limits limits{.failures = config.breaker_failures,
                                       .open = config.breaker_open};
  const MonotonicTime now = parts_.clock->Now();
  switch (reading.outcome) {
    case TokenizeOutcome::kEngine:
      health.breaker.OnSuccess(flight.text.ask.size());
      if (flight.text.chat_body) health.chat_path = flight.path;
      return;
    case TokenizeOutcome::kRefused:
      // Says something of this text, unless the endpoint is not there at all; engines that do not
      // have an adapter say the same of it as of an endpoint, and tokenize for the others.
      if (!reading.not_offered || flight.text.of_adapter) return;
      health.chat_path = TokenizePath::kTokenize;
      health.breaker.OnNotOffered(limits, now);
      return;
    case TokenizeOutcome::kTimedOut:
      health.breaker.OnTimeOut(flight.text.ask.size(), limits, now);
      return;
    default:
      health.breaker.OnError(limits, now);
      return;
  }
}

void Tokenizer::OnAnswer(const std::shared_ptr<Flight>& flight, CollectedAnswer answer) {
  const TokenizeReading reading = ReadTokenizeAnswer(answer, parts_.max_tokens);
  bool goes_on = false;
  std::vector<Done> waiting;
  {
    MutexLock lock(mu_);
    if (stopped_) return;
    flight->exchange = nullptr;
    goes_on = GoesOn(flight.get(), reading, answer);
    if (!goes_on) {
      Note(*flight, reading);
      flights_.erase(flight->key);
      waiting = std::move(flight->waiting);
    }
  }
  if (goes_on) {
    Send(flight);
    return;
  }
  const auto took = parts_.clock->Now() - flight->started;
  if (reading.ids && flight->key.size() <= flight->config->tokenize.max_cached_text_bytes)
    cache_.Insert(flight->key, reading.ids);
  bool first = true;
  for (Done& done : waiting) {
    const bool shared = !first && reading.ids;
    parts_.observer->OnTokenize(shared ? TokenizeOutcome::kShared : reading.outcome, took);
    first = false;
    done(reading.ids);
  }
}

void Tokenizer::Stop() {
  absl::flat_hash_map<std::string, std::shared_ptr<Flight>> flights;
  std::vector<std::shared_ptr<EngineExchange>> exchanges;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    flights.swap(flights_);
    for (auto& [key, flight] : flights) {
      flight->waiting.clear();
      if (flight->exchange) exchanges.push_back(std::move(flight->exchange));
    }
  }
  for (const auto& exchange : exchanges) exchange->Cancel();
}

uint64_t Tokenizer::InFlight() const {
  MutexLock lock(mu_);
  return flights_.size();
}

uint64_t Tokenizer::OpenBreakers() const {
  const MonotonicTime now = parts_.clock->Now();
  MutexLock lock(mu_);
  uint64_t open = 0;
  for (const auto& [name, health] : health_) open += health.breaker.IsOpenForSome(now) ? 1 : 0;
  return open;
}

}  // namespace kvrouter
