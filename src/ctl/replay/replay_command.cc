#include "ctl/replay/replay_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/status_macros.h"
#include "ctl/replay/replay_totals.h"
#include "kvrouter/decision_record.h"

namespace kvrouter::ctl {
namespace {

// Oldest first.
std::vector<std::string> FilesOf(const std::string& path) {
  std::vector<std::string> files = {path};
  for (int number = 1;; ++number) {
    std::string aside = fmt::format("{}.{}", path, number);
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(aside, unknown)) break;
    files.insert(files.begin(), std::move(aside));
  }
  return files;
}

absl::Status AddFile(const std::string& path, ReplayTotals* totals, ReplayOutcome* outcome) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return absl::InvalidArgumentError(fmt::format("cannot read {}: it is a directory", path));
  DecisionLogReader reader([&file](char* out, size_t bytes) {
    file.read(out, static_cast<std::streamsize>(bytes));
    return static_cast<size_t>(file.gcount());
  });
  for (;;) {
    const auto record = reader.Next();
    if (!record.ok()) {
      outcome->exit_code = 1;
      outcome->notes += fmt::format("{}: {}; the rest of the file is left out\n", path,
                                    std::string(record.status().message()));
      return absl::OkStatus();
    }
    if (!*record) break;
    totals->Add(**record);
  }
  if (file.bad()) {  // it did not end: the rest could not be read
    outcome->exit_code = 1;
    outcome->notes += fmt::format("{}: reading failed; the rest of the file is left out\n", path);
    return absl::OkStatus();
  }
  if (reader.CutOffBytes() > 0) {
    outcome->notes += fmt::format("{}: ends within a record ({} bytes of it are there)\n", path,
                                  reader.CutOffBytes());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayOutcome> Replay(const ReplayOptions& options) {
  KVR_ASSIGN_OR_RETURN(const PolicyChange change, ParsePolicyChange(options.set));
  ReplayTotals totals(change, options.show);
  ReplayOutcome outcome;
  for (const std::string& path : FilesOf(options.path))
    KVR_RETURN_IF_ERROR(AddFile(path, &totals, &outcome));
  outcome.output = options.json ? totals.Json() : totals.Text();
  if (options.set.empty() && totals.moved() > 0) {
    outcome.notes += fmt::format("{} of {} decisions were not reproduced with unchanged settings\n",
                                 totals.moved(), totals.replayed());
    outcome.exit_code = 1;
  }
  return outcome;
}

}  // namespace kvrouter::ctl
