#ifndef KVROUTER_FEED_PLANE_RANK_FEED_H_
#define KVROUTER_FEED_PLANE_RANK_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feed/feed_stats.h"
#include "feed/plane_codec.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct PlaneRankFeedConfig {
  Target target;
  Incarnation incarnation{};
  // Several brokers carry every message, each in its own time: how long the events before one that
  // came early may take. 0: one ordered path, what did not come is lost.
  MonotonicTime gap_wait{};
  // Early events kept meanwhile; beyond it the missing ones are given up. Parity: Dynamo's 1,024.
  size_t max_early_events = 1024;
};

// The events of one (worker, dp_rank) from Dynamo's event plane as a state machine. Each event
// carries an id; the ids of one publisher count up by one.
//
//   id <= last     stale, passed over
//   id = last + 1  applied
//   first ever     applied; from id 0 on nothing is missing, else degraded: it joined late
//   id > last + 1  lost events cannot be asked for again: the rank is reset, the event applied, degraded
//   cleared        with an id > last: applied at once, and whatever was missing matters no more
//   publisher      another one than before: a new life, the rank is reset; the old one is void
//
// Between "surely whole" and "surely lost" lies *suspicion*: the path broke, or messages were dropped
// without telling whose. Nothing is thrown away for it; the rank shows degraded until its next event
// tells, by its id, whether one is missing.
//
// An event that cannot be read is a lost one.
//
// Parity: Dynamo v1.4.1 recovery/cursor.rs, column "not recoverable". Publishers are told apart in
// addition: under a stable worker id a restart begins again at id 0, which would be stale for ever.
//
// Thread-compatible. Outputs are appended to `out` in the order in which they must be applied; the
// caller hands each result back with OnApplyResult.
class PlaneRankFeed {
 public:
  explicit PlaneRankFeed(const PlaneRankFeedConfig& config) : config_(config) {}

  void OnEvent(uint64_t publisher_id, PlaneEvent event, MonotonicTime now,
               std::vector<KvEvent>* out);
  // Once per message that holds events of this rank.
  void OnMessage() { ++counters_.messages; }

  // The path its events come by is broken, or works again.
  void OnPathDown(std::string_view why);
  void OnPathUp();
  // Messages were lost, perhaps of this rank.
  void OnSuspicion(std::string_view why);

  // Gives up what did not come in time; call a few times per second.
  void OnTick(MonotonicTime now, std::vector<KvEvent>* out);

  void OnApplyResult(const ApplyResult& result);

  // The rank leaves this feed while the worker lives on: its blocks must go.
  void DropBlocks(std::vector<KvEvent>* out);

  FeedState State() const;
  std::string Detail() const;  // empty when all is well
  const FeedCounters& Counters() const { return counters_; }

 private:
  static constexpr size_t kMaxOldPublishers = 8;

  PlaneEvent PopEarly();
  bool IsOldPublisher(uint64_t publisher_id) const;
  void BeginLife(uint64_t publisher_id, std::vector<KvEvent>* out);
  void Take(PlaneEvent event, std::vector<KvEvent>* out);
  void TakeEarly(std::vector<KvEvent>* out);
  void GiveUpMissing(std::vector<KvEvent>* out);
  void Reset(std::vector<KvEvent>* out);
  void Emit(uint64_t event_id, StorageTier tier, std::variant<Stored, Removed, Cleared> data,
            std::vector<KvEvent>* out);

  const PlaneRankFeedConfig config_;
  FeedCounters counters_;
  std::optional<uint64_t> publisher_;
  std::deque<uint64_t> old_publishers_;
  std::optional<uint64_t> last_id_;
  struct EarlyEvent {
    PlaneEvent event;
    MonotonicTime came{};
  };
  std::map<uint64_t, EarlyEvent> early_;  // ids > last + 1
  bool may_hold_ = false;                 // something was emitted since the last Cleared
  std::string damage_;                    // why blocks are missing
  std::string suspicion_;                 // why events may be missing
  std::string path_failure_;              // why nothing comes now
  uint64_t orphan_stores_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PLANE_RANK_FEED_H_
