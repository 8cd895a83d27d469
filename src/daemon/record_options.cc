#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"
#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

Option ShadowPolicyOption() {
  return {"shadow-policy",
          "KVROUTER_SHADOW_POLICY",
          "Settings of the choice, by their YAML keys, that differ in a second policy: it chooses "
          "from the same candidates, is compared and never acted on. Empty: none.",
          "KEY=VALUE[,...], or empty",
          false,
          [](std::string_view text, DaemonConfig* config) -> absl::Status {
            const auto change = ParsePolicyChange(text);
            if (!change.ok())
              return absl::InvalidArgumentError(std::string(change.status().message()));
            config->shadow_policy = std::string(text);
            return absl::OkStatus();
          },
          [](const DaemonConfig& config) { return config.shadow_policy; }};
}

}  // namespace

void AddRecordOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(ShadowPolicyOption());
  t.push_back(Words("decision-log-path", "KVROUTER_DECISION_LOG_PATH",
                    KVR_SETTING(decision_log.path), "a path, or empty", Anything,
                    "File that every decision is appended to, with all that it takes to make it "
                    "again (kvrouterctl replay); empty: none."));
  t.push_back(Whole("decision-log-file-bytes", "KVROUTER_DECISION_LOG_FILE_BYTES",
                    KVR_SETTING(decision_log.max_file_bytes), 4096, uint64_t{1} << 40,
                    "Size at which that file is put aside (PATH.1, PATH.2, ...), in bytes."));
  t.push_back(Whole("decision-log-files", "KVROUTER_DECISION_LOG_FILES",
                    KVR_SETTING(decision_log.files), 1, 1000,
                    "Files of the log that are kept, with the one being written."));
  t.push_back(Whole("decision-log-queue-bytes", "KVROUTER_DECISION_LOG_QUEUE_BYTES",
                    KVR_SETTING(decision_log.max_queue_bytes), 4096, uint64_t{1} << 40,
                    "Records that wait to be written, in bytes; beyond, new ones are dropped."));
  t.push_back(Whole("decision-log-max-candidates", "KVROUTER_DECISION_LOG_MAX_CANDIDATES",
                    KVR_SETTING(decision_log.max_candidates), 1, 1'000'000,
                    "Candidates of a decision that are recorded; a decision with more is recorded "
                    "without them and cannot be replayed."));
  t.push_back(Switch("decision-log-hashes", "KVROUTER_DECISION_LOG_HASHES",
                     KVR_SETTING(decision_log.with_hashes),
                     "Record the sequence hashes of the prompts' full blocks, too, 8 bytes each. "
                     "Tokens are never recorded."));
  t.push_back(Whole("config-poll-ms", "KVROUTER_CONFIG_POLL_MS", KVR_SETTING(config_poll), 0,
                    kDayMs,
                    "How often the config file is looked at for changes, in ms; a change counts "
                    "once two looks agree. 0: it is read again at SIGHUP only."));
}

}  // namespace kvrouter
