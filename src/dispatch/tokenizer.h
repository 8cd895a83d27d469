#ifndef KVROUTER_DISPATCH_TOKENIZER_H_
#define KVROUTER_DISPATCH_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/dispatch_settings.h"
#include "dispatch/engine_link.h"
#include "dispatch/model_directory.h"
#include "dispatch/token_cache.h"
#include "dispatch/tokenize_breaker.h"
#include "dispatch/tokenize_call.h"

namespace kvrouter {

// Token ids of texts, from the engines of the model: they have its tokenizer, and the template of
// its chats. One call for all who want the same text at one time; what came of it is kept. A model
// whose engines fail again and again is not asked for a while (tokenize_breaker.h).
//
// Whoever gets no ids is routed by load alone: no request fails for this, and none waits longer
// than the time-out, on two engines at most.
//
// Thread safety: thread-safe. Bounds: TokenizeConfig.
class Tokenizer : public std::enable_shared_from_this<Tokenizer> {
 public:
  struct Parts {
    std::shared_ptr<const DispatchSettings> settings;
    EngineLink* link = nullptr;
    const Clock* clock = nullptr;
    DispatchObserver* observer = nullptr;  // not null
    uint64_t max_tokens = 0;
  };
  explicit Tokenizer(const Parts& parts)
      : parts_(parts), cache_(parts.settings->Current()->tokenize.cache_bytes) {}

  struct Text {
    std::shared_ptr<const KnownPartition> partition;
    std::string ask;  // TokenizeBody
    // Of a chat: the client's whole body, for engines that render; null: it is none.
    std::shared_ptr<const std::string> chat_body;
    HeaderList headers;  // for the engine
    // Of a model that engines of the partition may not have loaded.
    bool of_adapter = false;
  };
  // `done` runs once, perhaps before this returns, with null if there are no ids; never after Stop.
  using Done = std::function<void(TokenIds)>;
  void Tokenize(Text text, Done done);

  // Cancels what is on its way; whoever waits for it is told nothing.
  void Stop();

  TokenCache::Figures CacheFigures() const { return cache_.Read(); }
  uint64_t InFlight() const;
  uint64_t OpenBreakers() const;

 private:
  struct Flight {
    std::string key;
    Text text;
    std::shared_ptr<const DispatchConfig> config;  // when it started
    MonotonicTime started{};
    std::vector<Done> waiting = {};
    TokenizePath path = TokenizePath::kTokenize;
    size_t engine = 0;  // of the partition
    uint32_t engines_tried = 0;
    std::shared_ptr<EngineExchange> exchange = nullptr;
  };
  // Of one model and group.
  struct Health {
    TokenizeBreaker breaker;
    size_t next_engine = 0;
    TokenizePath chat_path = TokenizePath::kTokenize;
  };

  static std::string KeyOf(const Text& text);
  Health& HealthOf(const KnownPartition& partition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nothing: it may go. The flight is in flights_ then, with its first engine chosen.
  std::optional<TokenizeOutcome> Admit(const std::shared_ptr<Flight>& flight, bool* joined);
  void Send(const std::shared_ptr<Flight>& flight);
  void OnAnswer(const std::shared_ptr<Flight>& flight, CollectedAnswer answer);
  // Whether the answer is to be followed by another call, which is prepared then.
  bool GoesOn(Flight* flight, const TokenizeReading& reading, const CollectedAnswer& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Note(const Flight& flight, const TokenizeReading& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Parts parts_;
  TokenCache cache_;
  mutable Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_map<std::string, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, std::string>, Health> health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_TOKENIZER_H_
