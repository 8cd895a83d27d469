#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_LINK_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "feed/engine_feed.h"
#include "kvrouter/router.h"
#include "property/truth/engine.h"
#include "property/truth/timeline.h"
#include "property/truth/witness.h"

namespace kvrouter::truth {

// What goes wrong with the answer to one replay request.
enum class ReplaySpoil : uint8_t {
  kNone,
  kMute,    // no answer
  kCut,     // half an answer, no end marker
  kHoles,   // some messages lost, the end marker perhaps
  kSlow,    // a message a second or so
  kTwice,   // every message comes twice
  kMangle,  // one message arrives damaged
};
inline constexpr uint32_t kReplaySpoils = 7;

// The sockets between an engine and its feed, and the feed: a stream of live messages that keeps
// its order but may lose, repeat, damage and delay some; connections that break with messages in
// flight; replays on sockets of their own.
//
// Owned by a shared_ptr, since what is in flight must not reach a link that is gone.
class EngineLink : public std::enable_shared_from_this<EngineLink> {
 public:
  // All pointers must outlive it; `engine` until Orphan.
  EngineLink(const EngineFeedConfig& config, Engine* engine, Router* router, Timeline* timeline,
             uint64_t seed);

  // From a snapshot, before anything else.
  void Restore(SavedProgress progress, const Witness::Memory& witness);
  void ConnectIn(MonotonicTime delay);
  // The notice comes a little later. Messages in flight may arrive before or after it.
  void Break();
  void OnBatch(const Batch& batch);
  void Tick();
  // The engine's process is gone and the link will be, too; what is in flight still arrives.
  void Orphan();

  // Prints what the feed is given and where it then stands.
  void SetTrace() { trace_ = true; }

  // Faults. Counts are of messages to come.
  void LoseNext(uint32_t messages) { lose_ += messages; }
  void MangleNext(uint32_t messages) { mangle_ += messages; }
  void RepeatNext(uint32_t messages) { repeat_ += messages; }
  void Stall(MonotonicTime delay);
  void SpoilNextReplay(ReplaySpoil spoil) { spoils_.push_back(spoil); }
  void HoldReplays(MonotonicTime until);
  void Heal();  // no fault is left for later

  bool IsConnected() const { return connected_; }
  const EngineFeed& feed() const { return feed_; }
  const Witness& witness() const { return witness_; }

 private:
  struct Connection {
    MonotonicTime cutoff = MonotonicTime::max();  // nothing of it arrives later
  };

  void Deliver(const Connection& connection, Said said, const std::vector<std::string>& frames,
               bool intact);
  void Answer(uint64_t replay, uint64_t from_sequence, ReplaySpoil spoil);
  void DeliverReply(uint64_t replay, uint64_t life, const std::vector<std::string>& frames);
  void FeedIsConnected();
  void StartGraceIf(bool wanted);
  void Drain();
  void Trace(const std::string& what) const;

  Timeline& timeline_;
  Engine* engine_;
  Router& router_;
  Dice dice_;
  const bool has_replay_;
  EngineFeed feed_;
  Witness witness_;
  std::vector<KvEvent> out_;

  bool trace_ = false;
  bool connected_ = false;   // as the engine sees it
  bool notice_due_ = false;  // the feed does not know yet that the connection broke
  bool feed_connected_ = false;
  bool feed_ever_connected_ = false;
  std::shared_ptr<Connection> connection_;
  MonotonicTime last_arrival_{};
  uint64_t replay_ = 0;  // the one whose answer is listened to
  MonotonicTime replays_held_until_{};
  uint32_t lose_ = 0;
  uint32_t mangle_ = 0;
  uint32_t repeat_ = 0;
  std::deque<ReplaySpoil> spoils_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_LINK_H_
