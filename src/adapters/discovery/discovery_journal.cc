#include "adapters/discovery/discovery_journal.h"

namespace kvrouter {

std::string_view WorkerSourceName(WorkerSource source) {
  switch (source) {
    case WorkerSource::kConfig:
      return "config";
    case WorkerSource::kFile:
      return "workers_file";
    case WorkerSource::kKubernetes:
      return "kubernetes";
  }
  return "unknown";
}

std::string_view SourceOutcomeName(SourceOutcome outcome) {
  switch (outcome) {
    case SourceOutcome::kApplied:
      return "applied";
    case SourceOutcome::kUnreadable:
      return "unreadable";
    case SourceOutcome::kInvalid:
      return "invalid";
    case SourceOutcome::kConnection:
      return "connection";
    case SourceOutcome::kTimeout:
      return "timeout";
    case SourceOutcome::kStatus:
      return "status";
    case SourceOutcome::kMalformed:
      return "malformed";
    case SourceOutcome::kExpired:
      return "expired";
  }
  return "unknown";
}

void DiscoveryJournal::Write(Line line) {
  MutexLock lock(mu_);
  if (lines_.size() >= kMaxLines) {
    ++dropped_lines_;
    return;
  }
  lines_.push_back(std::move(line));
}

std::vector<DiscoveryJournal::Line> DiscoveryJournal::Take() {
  std::deque<Line> taken;
  {
    MutexLock lock(mu_);
    taken.swap(lines_);
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

uint64_t DiscoveryJournal::DroppedLines() const {
  MutexLock lock(mu_);
  return dropped_lines_;
}

void DiscoveryJournal::Count(WorkerSource source, SourceOutcome outcome) {
  MutexLock lock(mu_);
  ++attempts_[static_cast<size_t>(source)].by_outcome[static_cast<size_t>(outcome)];
}

void DiscoveryJournal::SetCurrent(WorkerSource source, bool current) {
  MutexLock lock(mu_);
  attempts_[static_cast<size_t>(source)].current = current;
}

DiscoveryJournal::Attempts DiscoveryJournal::Read(WorkerSource source) const {
  MutexLock lock(mu_);
  return attempts_[static_cast<size_t>(source)];
}

}  // namespace kvrouter
