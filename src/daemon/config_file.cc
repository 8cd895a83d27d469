#include "daemon/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "daemon/worker_yaml.h"
#include "daemon/yaml_values.h"

namespace kvrouter {
namespace {

absl::StatusOr<ConfigFile> Parse(const YAML::Node& root, const std::string& file) {
  ConfigFile out;
  if (!root || root.IsNull()) return out;
  if (!root.IsMap()) return Place{file, LineOf(root)}.Error("the file must be a map of settings");
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const Place place{file, LineOf(entry.first)};
    KVR_ASSIGN_OR_RETURN(const std::string key, ParseText(entry.first, "a setting", place));
    if (!seen.insert(key).second) return place.Error(fmt::format("{} is given twice", key));
    if (key == "workers") {
      KVR_ASSIGN_OR_RETURN(out.workers, ParseWorkers(entry.second, file));
      continue;
    }
    if (!entry.second.IsScalar() && !entry.second.IsNull()) {
      return place.Error(fmt::format("{}: want a single value", key));
    }
    out.settings.push_back({key, entry.second.IsNull() ? "" : entry.second.Scalar(), place.line});
  }
  return out;
}

absl::StatusOr<std::vector<WorkerSpec>> ParseWorkerList(const YAML::Node& root,
                                                        const std::string& file) {
  if (root && root.IsSequence()) return ParseWorkers(root, file);
  constexpr std::string_view kWant = "want a list of workers, or a map with the one key 'workers'";
  const Place place{file, root ? LineOf(root) : 1};
  if (!root || !root.IsMap()) return place.Error(kWant);
  if (root.size() != 1 || root.begin()->first.Scalar() != "workers") return place.Error(kWant);
  const YAML::Node list = root.begin()->second;
  if (!list.IsSequence()) return place.Error("workers must be a list");
  return ParseWorkers(list, file);
}

// The one document of a YAML text, handed to `parse`.
template <typename Parse>
auto ParseYaml(const std::string& text, const std::string& name, Parse parse)
    -> decltype(parse(YAML::Node(), name)) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    for (size_t i = 1; i < documents.size(); ++i) {
      if (!documents[i].IsNull()) {
        return Place{name, LineOf(documents[i])}.Error(
            "a second YAML document: want one, with all settings and workers");
      }
    }
    return parse(documents.empty() ? YAML::Node() : documents.front(), name);
  } catch (const YAML::Exception& e) {
    return Place{name, e.mark.line + 1}.Error(e.msg);
  }
}

}  // namespace

absl::StatusOr<std::string> ReadConfigText(const std::string& path) {
  using FileType = std::filesystem::file_type;
  std::error_code unreadable;  // then opening says why
  const FileType type = std::filesystem::status(path, unreadable).type();
  if (type != FileType::regular && type != FileType::not_found && type != FileType::none)
    return absl::InvalidArgumentError(fmt::format("cannot read {}: not a regular file", path));
  std::ifstream file(path);
  if (!file)
    return absl::InvalidArgumentError(
        fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  // In pieces: memory for the largest file, at every reading of a small one, would stay with the
  // heap of each thread that reads.
  std::string text;
  std::array<char, 16384> piece;
  while (file && text.size() <= kMaxConfigFileBytes) {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return absl::InvalidArgumentError(fmt::format("cannot read {}", path));
  if (text.size() > kMaxConfigFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("cannot read {}: more than {} bytes", path, kMaxConfigFileBytes));
  }
  return text;
}

absl::StatusOr<ConfigFile> ParseConfigFile(const std::string& text, const std::string& name) {
  return ParseYaml(text, name, Parse);
}

absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path) {
  KVR_ASSIGN_OR_RETURN(const std::string text, ReadConfigText(path));
  return ParseConfigFile(text, path);
}

absl::StatusOr<std::vector<WorkerSpec>> ParseWorkersFile(const std::string& text,
                                                         const std::string& name) {
  return ParseYaml(text, name, ParseWorkerList);
}

absl::StatusOr<std::vector<WorkerSpec>> ReadWorkersFile(const std::string& path) {
  KVR_ASSIGN_OR_RETURN(const std::string text, ReadConfigText(path));
  return ParseWorkersFile(text, path);
}

}  // namespace kvrouter
