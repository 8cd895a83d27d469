#ifndef KVROUTER_ADAPTERS_DECISION_LOG_DECISION_LOG_H_
#define KVROUTER_ADAPTERS_DECISION_LOG_DECISION_LOG_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "adapters/decision_log/rotated_file.h"
#include "base/mutex.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/decision_sink.h"

namespace kvrouter {

struct DecisionLogConfig {
  std::string path;                               // empty: no log
  uint64_t max_file_bytes = uint64_t{64} << 20;   // then the file is put aside
  uint32_t files = 4;                             // kept, with the one being written
  uint64_t max_queue_bytes = uint64_t{16} << 20;  // of records that wait to be written
  uint32_t max_candidates = 1024;                 // more: the record cannot be replayed
  bool with_hashes = false;                       // of the prompts' full blocks
};

// Why a decision is not in the log. Label values of kvrouter_decision_log_dropped_total.
enum class LogDrop : uint8_t {
  kQueueFull,  // the disk is slower than decisions come
  kTooLarge,   // the record would pass kMaxRecordBytes
  kWrite,      // the file could not be written
};
inline constexpr int kLogDropCount = 3;
std::string_view LogDropName(LogDrop drop);

// The decision log: the thread that decided makes a record of its decision and queues it, one
// thread writes. Record never waits for the disk: it drops, and counts what it drops.
//
// Waking the writer costs the deciding thread more than its record does. So the writer is woken by
// the first record after a quiet time only; then it collects for kCollectTime before it writes, and
// sleeps again when there was nothing more.
//
// What may be lost when the process dies is what waits in the queue (usually a few milliseconds of
// decisions, never more than max_queue_bytes); when the host dies, also what the system had not
// written: there is no fsync. The end of the file may then be half a record, which
// readers pass over.
//
// Thread safety: thread-safe, except Start and Stop: from one thread.
class DecisionLog final : public DecisionRecorder {
 public:
  explicit DecisionLog(DecisionLogConfig config);
  ~DecisionLog() override;  // stops

  bool Enabled() const { return !config_.path.empty(); }

  // Opens the file. An error, and nothing runs: it cannot be written, or is no decision log.
  absl::Status Start();
  // What is queued is written; later decisions are dropped.
  void Stop();

  void Record(const DecisionFacts& facts) override;

  struct Figures {
    uint64_t records = 0;             // written
    uint64_t bytes = 0;               // likewise
    uint64_t without_candidates = 0;  // of those queued: too many, cannot be replayed
    std::array<uint64_t, kLogDropCount> dropped{};
    uint64_t queued_bytes = 0;
    uint64_t rotations = 0;
    std::string failure;  // of the last write; empty: it succeeded
  };
  Figures Read() const;

 private:
  static constexpr std::chrono::milliseconds kCollectTime{2};

  void Run();
  void WriteAll(const std::vector<std::string>& records);
  // One file's worth.
  void WriteBatch(std::string_view bytes, uint64_t records);
  void CountWrite(const absl::Status& status, uint64_t bytes, uint64_t records);
  void CountDrop(LogDrop drop);

  const DecisionLogConfig config_;
  RotatedFile file_;  // own thread, after Start

  mutable Mutex mu_;
  CondVar wake_;
  std::vector<std::string> queue_ ABSL_GUARDED_BY(mu_);
  bool open_ ABSL_GUARDED_BY(mu_) = false;
  bool writer_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // until it is woken
  Figures figures_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DECISION_LOG_DECISION_LOG_H_
