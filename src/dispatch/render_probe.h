#ifndef KVROUTER_DISPATCH_RENDER_PROBE_H_
#define KVROUTER_DISPATCH_RENDER_PROBE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "dispatch/dispatch_settings.h"
#include "dispatch/engine_link.h"
#include "dispatch/model_directory.h"
#include "dispatch/token_cache.h"
#include "dispatch/tokenize_call.h"

namespace kvrouter {

// Whether engines make the same tokens of a chat. Blocks of a prompt are of no use to an engine
// that renders it otherwise (another template, another tokenizer), and the two legs of a chat get
// its text. So each engine is asked, once in its life and again every hour, for the ids of one
// conversation; those whose ids are equal may exchange blocks. Until an engine has answered nobody
// knows, and nobody waits for it.
//
// Thread safety: thread-safe. Bound: one entry per engine of the registry, kMaxAsking on their way.
class RenderProbe : public std::enable_shared_from_this<RenderProbe> {
 public:
  struct Parts {
    EngineLink* link = nullptr;
    const Clock* clock = nullptr;
    std::shared_ptr<const DispatchSettings> settings;  // its time-outs are the tokenizer's
  };
  explicit RenderProbe(const Parts& parts) : parts_(parts) {}

  // Both have answered, alike. Asks those that have not; `headers` go along.
  bool Alike(const KnownPartition& partition, WorkerId a, WorkerId b, const HeaderList& headers);
  bool AllAlike(const KnownPartition& partition, const HeaderList& headers);
  void Stop();

 private:
  static constexpr size_t kMaxAsking = 16;

  struct Known {
    Incarnation incarnation{};
    TokenIds ids;  // null: not known
    MonotonicTime ask_at{};
    bool asking = false;
  };
  // What is known of the engine; has it asked if that is due.
  TokenIds IdsOf(const KnownPartition& partition, const KnownEngine& engine,
                 const HeaderList& headers);
  void Ask(const std::string& model, const KnownEngine& engine, TokenizePath path,
           const HeaderList& headers);
  void OnAnswer(const std::string& model, const KnownEngine& engine, TokenizePath path,
                const HeaderList& headers, const CollectedAnswer& answer);

  const Parts parts_;
  mutable Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  size_t asking_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<WorkerId, Known> known_ ABSL_GUARDED_BY(mu_);
};

// The conversation, as a body for either endpoint.
std::string ProbeBody(std::string_view model);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_RENDER_PROBE_H_
