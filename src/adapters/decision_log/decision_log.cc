#include "adapters/decision_log/decision_log.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter {
namespace {

// Of one write: a batch that fails is dropped as a whole.
constexpr size_t kBatchBytes = size_t{256} << 10;

uint64_t UnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
}

}  // namespace

std::string_view LogDropName(LogDrop drop) {
  switch (drop) {
    case LogDrop::kQueueFull:
      break;
    case LogDrop::kTooLarge:
      return "too_large";
    case LogDrop::kWrite:
      return "write";
  }
  return "queue_full";
}

DecisionLog::DecisionLog(DecisionLogConfig config)
    : config_(std::move(config)),
      file_({.path = config_.path, .max_bytes = config_.max_file_bytes, .files = config_.files}) {}

DecisionLog::~DecisionLog() { Stop(); }

absl::Status DecisionLog::Start() {
  if (!Enabled()) return absl::OkStatus();
  KVR_RETURN_IF_ERROR(file_.Open());
  {
    MutexLock lock(mu_);
    open_ = true;
  }
  thread_ = std::jthread([this] { Run(); });
  return absl::OkStatus();
}

void DecisionLog::Stop() {
  {
    MutexLock lock(mu_);
    open_ = false;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  file_.Close();
}

void DecisionLog::Record(const DecisionFacts& facts) {
  const RecordBounds bounds{.max_candidates = config_.max_candidates,
                            .with_hashes = config_.with_hashes};
  const DecisionRecord record = RecordOf(facts, bounds, UnixMs());
  std::string bytes = EncodeRecord(record);
  if (bytes.empty()) {
    CountDrop(LogDrop::kTooLarge);
    return;
  }
  {
    MutexLock lock(mu_);
    if (!open_ || figures_.queued_bytes + bytes.size() > config_.max_queue_bytes) {
      ++figures_.dropped[static_cast<size_t>(LogDrop::kQueueFull)];
      return;
    }
    figures_.queued_bytes += bytes.size();
    figures_.without_candidates += record.CanBeReplayed() ? 0 : 1;
    const uint64_t half_bytes = config_.max_queue_bytes / 2;
    const bool now_half_full =
        figures_.queued_bytes > half_bytes && figures_.queued_bytes - bytes.size() <= half_bytes;
    queue_.push_back(std::move(bytes));
    if (!writer_sleeps_ && !now_half_full) return;
    writer_sleeps_ = false;
  }
  wake_.NotifyOne();
}

DecisionLog::Figures DecisionLog::Read() const {
  MutexLock lock(mu_);
  return figures_;
}

void DecisionLog::CountDrop(LogDrop drop) {
  MutexLock lock(mu_);
  ++figures_.dropped[static_cast<size_t>(drop)];
}

void DecisionLog::Run() {
  pthread_setname_np(pthread_self(), "kvr-declog");
  std::vector<std::string> records;
  for (;;) {
    records.clear();
    {
      MutexLock lock(mu_);
      while (open_ && queue_.empty()) {
        writer_sleeps_ = true;
        wake_.Wait(mu_);
      }
      writer_sleeps_ = false;
      if (queue_.empty()) return;
      if (open_) wake_.WaitFor(mu_, kCollectTime);  // cut short: written a little early
      records.swap(queue_);
    }
    WriteAll(records);
  }
}

void DecisionLog::WriteAll(const std::vector<std::string>& records) {
  std::string batch;
  uint64_t batched = 0;
  const auto flush = [&] {
    if (batched > 0) WriteBatch(batch, batched);
    batch.clear();
    batched = 0;
  };
  for (const std::string& record : records) {
    if (batch.size() + record.size() > kBatchBytes ||
        !file_.HasRoomFor(batch.size() + record.size()))
      flush();
    batch += record;
    ++batched;
  }
  flush();
}

void DecisionLog::WriteBatch(std::string_view bytes, uint64_t records) {
  absl::Status status = file_.MakeRoomFor(bytes.size());
  if (status.ok()) status = file_.Append(bytes);
  CountWrite(status, bytes.size(), records);
}

void DecisionLog::CountWrite(const absl::Status& status, uint64_t bytes, uint64_t records) {
  MutexLock lock(mu_);
  figures_.queued_bytes -= bytes;
  figures_.rotations = file_.rotations();
  if (status.ok()) {
    figures_.records += records;
    figures_.bytes += bytes;
    figures_.failure.clear();
  } else {
    figures_.dropped[static_cast<size_t>(LogDrop::kWrite)] += records;
    figures_.failure.assign(status.message().data(), status.message().size());
  }
}

}  // namespace kvrouter
