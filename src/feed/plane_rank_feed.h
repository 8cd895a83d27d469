#ifndef KVROUTER_FEED_PLANE_RANK_FEED_H_
#define KVROUTER_FEED_PLANE_RANK_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "feed/feed_stats.h"
#include "feed/plane_codec.h"
#include "feed/publisher_order.h"
#include "feed/rank_picture.h"
#include "feed/repair_schedule.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct PlaneRankFeedConfig {
  Target target{};
  Incarnation incarnation{};
  // Several brokers carry every message, each in its own time: how long the events before one that
  // came early may take. 0: one ordered path, what did not come is lost.
  MonotonicTime gap_wait{};
  // Early events kept meanwhile; beyond it the missing ones are given up. Parity: Dynamo's 1,024.
  size_t max_early_events = 1024;
  // Somebody can be asked for what the rank holds.
  bool repairable = false;
  // And the answer proves what it says. Else it is worth less than what is only doubted.
  bool repair_proves = true;
  RepairScheduleConfig repair{};
  uint64_t jitter_seed = 0;  // another one for each router
  // How long the blocks known before are believed after a loss while a repair is on its way.
  MonotonicTime repair_patience = std::chrono::seconds(10);
  // How long a doubt may settle by itself, through the rank's next event, before anybody is asked;
  // and how far behind the answer to a repair events may come and still be part of it.
  MonotonicTime doubt_grace = std::chrono::seconds(1);
  // Events kept while a repair runs. Beyond it the answer is worthless, and asked for again.
  size_t max_tail_events = 65'536;
  size_t max_tail_bytes = 64u << 20;
};

// The events of one (worker, dp_rank) from Dynamo's event plane as a state machine. Each event
// carries an id; the ids of one publisher count up by one.
//
//                 nobody can be asked                        repairable
//   id <= last     stale, passed over                         the same
//   id = last + 1  applied                                    the same
//   first ever     applied; from id 0 on nothing is           the same, and repaired
//                  missing, else degraded: it joined late
//   id > last + 1  the rank is reset, the event applied,      held back with what follows until the
//                  degraded                                   repair; failing that as on the left
//   cleared        with an id > last: applied at once, and whatever was missing matters no more
//   publisher      another one than before: a new life, the rank is reset; the old one is void
//
// Between "surely whole" and "surely lost" lies *suspicion*: the path broke, or messages were
// dropped without telling whose. Nothing is thrown away for it; the rank shows degraded until its
// next event tells, by its id, whether one is missing. A repairable rank whose next event does not
// come soon is repaired.
//
// A *repair* replaces all that is known by a RankPicture, taken some time after TakeRepair, and the
// *tail*: the events that came since TakeRepair. Those that the picture already has change nothing
// when they are applied again in their order; that is why a hole in the tail makes the answer
// worthless, and why stores that continue unknown blocks do not count as orphans for a while.
//
// A repair *without proof* (a peer's) may have less than is known here, or what others lost as we
// did. So it is made only where blocks are surely missing, never for a doubt; the rank is reset
// first, as if nobody could be asked, so that two who lost the same thing do not confirm each
// other's old blocks; and the rank stays degraded. A rank that said nothing yet is asked about
// once.
//
// An event that cannot be read is a lost one.
//
// Parity: Dynamo v1.4.1 recovery/cursor.rs, both columns. Publishers are told apart in addition:
// under a stable worker id a restart begins again at id 0, which would be stale for ever.
//
// Thread-compatible. Outputs are appended to `out` in the order in which they must be applied; the
// caller hands each result back with OnApplyResult before the next input.
class PlaneRankFeed {
 public:
  explicit PlaneRankFeed(const PlaneRankFeedConfig& config);

  // Events come by this path from now on.
  void SetPath(uint32_t path) { path_ = path; }
  void OnEvent(uint64_t publisher_id, PlaneEvent event, MonotonicTime now,
               std::vector<KvEvent>* out);
  // Once per message that holds events of this rank.
  void OnMessage() { ++counters_.messages; }

  // The path its events come by is broken, or works again.
  void OnPathDown(std::string_view why);
  void OnPathUp();
  // Whether all that is published of this rank comes here.
  // Else a repair would be out of date at once.
  void SetListening(bool listening);
  // Messages were lost, perhaps of this rank.
  void OnSuspicion(std::string_view why);

  // Gives up what did not come in time; call a few times per second.
  void OnTick(MonotonicTime now, std::vector<KvEvent>* out);

  // Whether somebody can be asked from now on, and knows for sure.
  void SetRepairable(bool repairable, bool proves = true) {
    repairable_ = repairable;
    repair_proves_ = proves;
  }
  // A repair is to be made now; the caller may let it wait by not taking it. `ticket` is new.
  bool RepairDue(MonotonicTime now) const { return schedule_.Due(now); }
  void TakeRepair(uint64_t ticket, MonotonicTime now);
  // The answer is still waited for.
  bool RepairRunning(uint64_t ticket) const { return schedule_.Running(ticket); }
  void OnRepaired(uint64_t ticket, RankPicture picture, MonotonicTime now,
                  std::vector<KvEvent>* out);
  void OnRepairFailed(uint64_t ticket, std::string_view why);
  // Nobody can be asked, or what could be had by asking was had once, or refused. Stays true.
  bool InitialRecoveryDone() const { return initial_recovery_done_; }

  void OnApplyResult(const ApplyResult& result);

  // The rank leaves this feed while the worker lives on: its blocks must go.
  void DropBlocks(std::vector<KvEvent>* out);

  // From the feed that had the rank before, perhaps of an earlier life of the worker: what its
  // publishers left on the way may come after the first event of a new one. One that is older than
  // the one we follow is void. REQUIRES: no input yet.
  void InheritPublishers(PublisherOrder publishers) { publishers_ = std::move(publishers); }
  const PublisherOrder& Publishers() const { return publishers_; }

  FeedState State() const;
  std::string Detail() const;     // empty when all is well
  DegradedReason Reason() const;  // kNone unless degraded
  const FeedCounters& Counters() const { return counters_; }

 private:
  PlaneEvent PopEarly();
  bool Known() const { return publisher_ || pictured_; }
  void BeginLife(uint64_t publisher_id, uint64_t first_id, std::vector<KvEvent>* out);
  void Take(PlaneEvent event, std::vector<KvEvent>* out);
  void Pass(PlaneEvent event, std::vector<KvEvent>* out);
  void TakeEarly(std::vector<KvEvent>* out);
  void GiveUpMissing(std::vector<KvEvent>* out);
  void OnLoss(std::string what, std::vector<KvEvent>* out);
  void Reset(std::vector<KvEvent>* out);
  void Emit(uint64_t event_id, StorageTier tier, std::variant<Stored, Removed, Cleared> data,
            std::vector<KvEvent>* out);

  // In how long a repair is wanted.
  std::optional<MonotonicTime> RepairWanted() const;
  void ForgetDamage();
  bool FitsInTail(const PlaneEvent& event) const;
  void EmitTail(size_t from, std::vector<KvEvent>* out);
  void DropTail();
  void StopHolding(std::vector<KvEvent>* out);

  const PlaneRankFeedConfig config_;
  FeedCounters counters_;
  std::optional<uint64_t> publisher_;
  PublisherOrder publishers_;
  uint32_t path_ = 0;
  std::optional<uint64_t> last_id_;
  struct EarlyEvent {
    PlaneEvent event;
    MonotonicTime came{};
  };
  std::map<uint64_t, EarlyEvent> early_;  // ids > last + 1
  bool may_hold_ = false;                 // something was emitted since the last Cleared
  std::string damage_;                    // why blocks are missing
  DegradedReason damage_reason_ = DegradedReason::kNone;  // of that kind; read only with damage_
  std::string suspicion_;                                 // why events may be missing
  std::string path_failure_;                              // why nothing comes now
  uint64_t orphan_stores_ = 0;

  bool repairable_;
  bool repair_proves_;
  bool nobody_knew_ = false;  // a silent rank that was asked about in vain, without proof to be had
  bool listening_ = false;
  bool initial_recovery_done_ = false;
  RepairSchedule schedule_;
  std::string repair_failure_;    // of the last attempt
  bool pictured_ = false;         // repaired in this life
  bool damage_is_final_ = false;  // the picture itself had holes: nobody knows more
  std::deque<PlaneEvent> tail_;
  size_t tail_bytes_ = 0;
  size_t tail_of_repair_ = 0;  // events before the running repair began
  // Since when the blocks known before a loss are believed, and the tail is not applied.
  std::optional<MonotonicTime> holding_since_;
  MonotonicTime now_{};             // the latest that was told
  MonotonicTime settled_at_{};      // orphans count again from here on
  uint64_t results_to_ignore_ = 0;  // those of a picture and its tail
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PLANE_RANK_FEED_H_
