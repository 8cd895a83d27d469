#include "adapters/discovery/workers_file.h"

#include <fmt/format.h>
#include <pthread.h>

#include <utility>

#include "base/status_macros.h"

namespace kvrouter {
namespace {

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace

WorkersFile::WorkersFile(WorkersFileConfig config, WorkersFileReader read, WorkerSources* sources,
                         DiscoveryJournal* journal)
    : config_(std::move(config)), read_(std::move(read)), sources_(sources), journal_(journal) {}

WorkersFile::~WorkersFile() { Stop(); }

absl::Status WorkersFile::Start() {
  const std::optional<FileSignature> before = SignatureOf(config_.path);
  KVR_ASSIGN_OR_RETURN(const std::vector<DeclaredWorker> workers, ReadOnce());
  // A signature from before reading: if the file changed meanwhile, the first looks see it.
  if (before) change_.Read(*before);
  KVR_RETURN_IF_ERROR(sources_->Replace(WorkerSource::kFile, workers));
  journal_->Count(WorkerSource::kFile, SourceOutcome::kApplied);
  journal_->SetCurrent(WorkerSource::kFile, true);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  return absl::OkStatus();
}

void WorkersFile::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::vector<DeclaredWorker>> WorkersFile::ReadOnce() {
  KVR_ASSIGN_OR_RETURN(std::vector<WorkerSpec> specs, read_(config_.path));
  std::vector<DeclaredWorker> workers;
  workers.reserve(specs.size());
  for (WorkerSpec& spec : specs) {
    if (const absl::Status status = ValidateDeclared(spec, config_.may_be_learned); !status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: worker {}: {}", config_.path, fmt::underlying(spec.id), Text(status)));
    }
    workers.push_back({.spec = std::move(spec), .life = ""});
  }
  return workers;
}

void WorkersFile::Follow() {
  const std::optional<FileSignature> before = SignatureOf(config_.path);
  switch (change_.Look(before)) {
    case FileChange::Verdict::kNothing:
      return;
    case FileChange::Verdict::kVanished:
      Fail(SourceOutcome::kUnreadable, fmt::format("{} is gone", config_.path));
      return;
    case FileChange::Verdict::kRead:
      break;
  }
  const absl::StatusOr<std::vector<DeclaredWorker>> workers = ReadOnce();
  if (SignatureOf(config_.path) != before) return;  // read while it changed: the next look decides
  change_.Read(*before);
  if (!workers.ok()) {
    Fail(SourceOutcome::kInvalid, Text(workers.status()));
    return;
  }
  const absl::Status refused = sources_->Replace(WorkerSource::kFile, *workers);
  journal_->Count(WorkerSource::kFile, SourceOutcome::kApplied);
  journal_->SetCurrent(WorkerSource::kFile, true);
  // What was refused has its own line, by worker.
  journal_->Write(
      {.warning = !refused.ok(),
       .event = "workers_file_applied",
       .fields = {{"path", config_.path}, {"workers", fmt::format("{}", workers->size())}}});
}

void WorkersFile::Fail(SourceOutcome outcome, const std::string& what) {
  journal_->Count(WorkerSource::kFile, outcome);
  journal_->SetCurrent(WorkerSource::kFile, false);
  journal_->Write({.warning = true,
                   .event = "workers_file_kept_old_set",
                   .fields = {{"path", config_.path}, {"detail", what}}});
}

void WorkersFile::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kvr-file");
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mu_);  // not between the test of the loop and its wait
    wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    Follow();
    MutexLock lock(mu_);
    if (!stop.stop_requested()) wake_.WaitFor(mu_, config_.poll_period);
  }
}

}  // namespace kvrouter
