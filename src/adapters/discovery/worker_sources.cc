#include "adapters/discovery/worker_sources.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

std::string IdText(WorkerId id) { return fmt::format("{}", fmt::underlying(id)); }
std::string SourceText(WorkerSource source) { return std::string(WorkerSourceName(source)); }
size_t Index(WorkerSource source) { return static_cast<size_t>(source); }

bool IsRoutable(const WorkerSpec& spec) {
  return spec.block_size_tokens != 0 && !spec.model_name.empty();
}
bool LeavesSomethingOpen(const WorkerSpec& spec) {
  return !IsRoutable(spec) || spec.total_kv_blocks == 0;
}
void TakeOpenFrom(const std::optional<WorkerSpec>& record, WorkerSpec* spec) {
  if (!record) return;
  if (spec->block_size_tokens == 0) spec->block_size_tokens = record->block_size_tokens;
  if (spec->model_name.empty()) spec->model_name = record->model_name;
}

}  // namespace

absl::Status ValidateDeclared(const WorkerSpec& spec, bool may_be_learned) {
  if (!may_be_learned) return ValidateWorkerSpec(spec);
  WorkerSpec learned = spec;  // of no more than what can be
  if (learned.block_size_tokens == 0) learned.block_size_tokens = 1;
  if (learned.model_name.empty()) learned.model_name = "default";
  return ValidateWorkerSpec(learned);
}

absl::Status WorkerSources::Replace(WorkerSource source,
                                    const std::vector<DeclaredWorker>& wanted) {
  if (wanted.size() > kMaxWorkersPerSource) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("{} declares {} workers, limit {}", WorkerSourceName(source),
                                 wanted.size(), kMaxWorkersPerSource));
  }
  std::map<WorkerId, DeclaredWorker> by_id;
  for (const DeclaredWorker& worker : wanted) {
    if (!by_id.emplace(worker.spec.id, worker).second) {
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                       fmt::format("{} declares worker_id {} twice", WorkerSourceName(source),
                                   fmt::underlying(worker.spec.id)));
    }
  }
  MutexLock lock(mu_);
  wanted_[Index(source)] = std::move(by_id);
  MergeLocked();
  ReconcileLocked();
  for (const auto& [id, worker] : wanted_[Index(source)]) {
    const Entry& entry = entries_.at(id);
    if (entry.source == source && entry.standing == Standing::kRefused) return entry.refusal;
  }
  return absl::OkStatus();
}

void WorkerSources::Retry() {
  MutexLock lock(mu_);
  if (seen_version_ == registry_->Version()) return;
  ReconcileLocked();
}

WorkerSources::Figures WorkerSources::Read(WorkerSource source) const {
  MutexLock lock(mu_);
  Figures figures{.conflicting = shadowed_[Index(source)].size(),
                  .conflicts_total = totals_[Index(source)].conflicts,
                  .refusals_total = totals_[Index(source)].refusals};
  for (const auto& [id, entry] : entries_) {
    if (entry.source != source) continue;
    figures.registered += held_.contains(id) ? 1 : 0;
    figures.conflicting += entry.standing == Standing::kConflict ? 1 : 0;
    figures.refused += entry.standing == Standing::kRefused ? 1 : 0;
    figures.removed_by_callers += entry.standing == Standing::kRemovedByCaller ? 1 : 0;
    figures.incomplete += entry.standing == Standing::kIncomplete ? 1 : 0;
  }
  return figures;
}

std::vector<std::pair<WorkerId, std::string>> WorkerSources::Incomplete() const {
  std::vector<std::pair<WorkerId, std::string>> out;
  MutexLock lock(mu_);
  for (const auto& [id, entry] : entries_) {
    if (entry.standing == Standing::kIncomplete) out.emplace_back(id, entry.wanted.spec.address);
  }
  return out;
}

void WorkerSources::Learn(WorkerId id, const LearnedFacts& facts) {
  if (facts == LearnedFacts{}) return;
  MutexLock lock(mu_);
  const auto it = entries_.find(id);
  if (it == entries_.end() || !LeavesSomethingOpen(it->second.wanted.spec)) return;
  Entry& entry = it->second;
  const WorkerSpec before = CompletedLocked(entry.wanted.spec);
  LearnedFacts& learned = learned_[id];
  if (facts.block_size_tokens != 0) learned.block_size_tokens = facts.block_size_tokens;
  if (!facts.model_name.empty()) learned.model_name = facts.model_name;
  if (facts.total_kv_blocks != 0) learned.total_kv_blocks = facts.total_kv_blocks;
  if (CompletedLocked(entry.wanted.spec) == before) return;
  NoteLossesLocked();
  if (entry.standing == Standing::kRemovedByCaller) return;
  entry.dirty = true;
  ReconcileLocked();
}

WorkerSpec WorkerSources::CompletedLocked(const WorkerSpec& wanted) const {
  WorkerSpec spec = wanted;
  const auto learned = learned_.find(spec.id);
  if (learned == learned_.end()) return spec;
  const LearnedFacts& facts = learned->second;
  if (spec.block_size_tokens == 0) spec.block_size_tokens = facts.block_size_tokens;
  if (spec.model_name.empty()) spec.model_name = facts.model_name;
  if (spec.total_kv_blocks == 0) spec.total_kv_blocks = facts.total_kv_blocks;
  return spec;
}

// entries_ := the strongest wish for each id; a changed wish is dirty.
void WorkerSources::MergeLocked() {
  std::map<WorkerId, Entry> merged;
  for (size_t s = 0; s < kWorkerSourceCount; ++s) {
    const auto source = static_cast<WorkerSource>(s);
    std::set<WorkerId> shadowed;
    for (const auto& [id, wanted] : wanted_[s]) {
      if (const auto stronger = merged.find(id); stronger != merged.end()) {
        if (!shadowed_[s].contains(id)) ShadowLocked(source, id, stronger->second.source);
        shadowed.insert(id);
        continue;
      }
      const auto before = entries_.find(id);
      if (before != entries_.end() && before->second.wanted == wanted) {
        merged.emplace(id, std::move(before->second)).first->second.source = source;
      } else {
        merged.emplace(id, Entry{.source = source, .wanted = wanted});
      }
    }
    shadowed_[s] = std::move(shadowed);
  }
  entries_ = std::move(merged);
  for (auto learned = learned_.begin(); learned != learned_.end();) {
    const auto entry = entries_.find(learned->first);
    const bool is_open = entry != entries_.end() && LeavesSomethingOpen(entry->second.wanted.spec);
    learned = is_open ? std::next(learned) : learned_.erase(learned);
  }
}

void WorkerSources::ReconcileLocked() {
  // Read first: a change that comes while we work brings us back.
  seen_version_ = registry_->Version();
  NoteLossesLocked();
  for (auto& [id, entry] : entries_) RegisterLocked(id, &entry);
  RemoveUnwantedLocked();
  for (auto& [id, entry] : entries_) {
    if (entry.standing == Standing::kRefused) RegisterLocked(id, &entry);
  }
}

// Records that somebody else has removed or taken over.
void WorkerSources::NoteLossesLocked() {
  for (auto it = held_.begin(); it != held_.end();) {
    const std::optional<WorkerSpec> live = registry_->Find(it->first);
    if (live && live->incarnation == it->second.incarnation) {
      ++it;
      continue;
    }
    const auto entry = entries_.find(it->first);
    if (entry != entries_.end() && !entry->second.dirty)
      entry->second.standing = Standing::kRemovedByCaller;
    it = held_.erase(it);
  }
}

void WorkerSources::RemoveUnwantedLocked() {
  for (auto it = held_.begin(); it != held_.end();) {
    if (entries_.contains(it->first)) {
      ++it;
      continue;
    }
    // Somebody else's by now, or gone: then there is nothing of ours to remove.
    (void)registry_->RemoveLife(it->first, it->second.incarnation);
    it = held_.erase(it);
  }
}

void WorkerSources::RegisterLocked(WorkerId id, Entry* entry) {
  if (!entry->dirty) return;
  const auto held = held_.find(id);
  const bool is_held = held != held_.end();
  DeclaredUpsert upsert{.spec = CompletedLocked(entry->wanted.spec)};
  // What is no longer declared stays as it was until it is learned.
  if (is_held && !IsRoutable(upsert.spec)) TakeOpenFrom(registry_->Find(id), &upsert.spec);
  if (!IsRoutable(upsert.spec)) {
    SetIncompleteLocked(id, entry);
    return;
  }
  if (is_held) upsert.expected = held->second.incarnation;
  upsert.new_life = is_held && held->second.life != entry->wanted.life;
  const bool process_gone = upsert.new_life;
  const absl::StatusOr<WorkerSpec> stored = registry_->RegisterDeclared(std::move(upsert));
  if (stored.ok()) {
    entry->dirty = false;
    entry->standing = Standing::kRegistered;
    entry->refusal = absl::OkStatus();
    held_[id] = {.incarnation = stored->incarnation, .life = entry->wanted.life};
    return;
  }
  if (ErrorReasonOf(stored.status()) == ErrorReason::kIncarnationConflict) {
    held_.erase(id);
    SetConflictLocked(id, entry);
    return;
  }
  if (process_gone) {
    (void)registry_->RemoveLife(id, held->second.incarnation);
    held_.erase(id);
  }
  SetRefusedLocked(id, entry, stored.status());
}

void WorkerSources::SetIncompleteLocked(WorkerId id, Entry* entry) {
  if (entry->standing == Standing::kIncomplete) return;
  entry->standing = Standing::kIncomplete;
  journal_->Write({.warning = false,
                   .event = "worker_waits_for_its_engine",
                   .fields = {{"worker_id", IdText(id)},
                              {"source", SourceText(entry->source)},
                              {"address", entry->wanted.spec.address}}});
}

void WorkerSources::SetConflictLocked(WorkerId id, Entry* entry) {
  if (entry->standing == Standing::kConflict) return;
  entry->standing = Standing::kConflict;
  entry->dirty = true;  // to be registered once the other one is gone
  ++totals_[Index(entry->source)].conflicts;
  journal_->Write({.warning = true,
                   .event = "worker_conflict",
                   .fields = {{"worker_id", IdText(id)},
                              {"source", SourceText(entry->source)},
                              {"held_by", "a caller's registration"}}});
}

void WorkerSources::SetRefusedLocked(WorkerId id, Entry* entry, const absl::Status& refusal) {
  if (entry->standing == Standing::kRefused && entry->refusal == refusal) return;
  entry->standing = Standing::kRefused;
  entry->refusal = refusal;
  ++totals_[Index(entry->source)].refusals;
  registry_->CountRefusal(refusal);
  const auto message = refusal.message();
  journal_->Write({.warning = true,
                   .event = "worker_refused",
                   .fields = {{"worker_id", IdText(id)},
                              {"source", SourceText(entry->source)},
                              {"reason", std::string(ErrorReasonName(ErrorReasonOf(refusal)))},
                              {"detail", std::string(message.data(), message.size())}}});
}

void WorkerSources::ShadowLocked(WorkerSource source, WorkerId id, WorkerSource stronger) {
  ++totals_[Index(source)].conflicts;
  journal_->Write({.warning = true,
                   .event = "worker_conflict",
                   .fields = {{"worker_id", IdText(id)},
                              {"source", SourceText(source)},
                              {"held_by", SourceText(stronger)}}});
}

}  // namespace kvrouter
