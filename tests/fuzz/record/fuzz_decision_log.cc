// Bytes of a decision log. The first byte chooses: even, the rest is a whole file; odd, it is what
// one record holds. Whatever can be read is written and read again, and decided again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

void RunRecord(const DecisionRecord& record) {
  const std::string written = EncodeRecord(record);
  if (!written.empty()) {
    const auto again = DecodeRecordPayload(std::string_view(written).substr(8));
    KVR_CHECK(again.ok() && EncodeRecord(*again) == written, "does not come back");
  }
  PolicyChange change;
  change.router_temperature = 0.5;
  for (const PolicyChange& policy : {PolicyChange(), change}) {
    const auto decided = Redecide(record, policy, 1);
    if (!decided.ok()) continue;
    KVR_CHECK(decided->index < record.candidates.size(), "chooses {}", decided->index);
    KVR_CHECK(record.candidates[decided->recorded_index].target == record.target, "another target");
  }
}

void RunFile(std::string_view file) {
  DecisionLogReader reader([&file](char* out, size_t bytes) {
    const size_t got = std::min(bytes, file.size());
    std::copy_n(file.data(), got, out);
    file.remove_prefix(got);
    return got;
  });
  for (;;) {
    const auto record = reader.Next();
    if (!record.ok() || !*record) return;
    RunRecord(**record);
  }
}

void Run(std::string_view bytes) {
  const bool whole_file = (bytes[0] & 1) == 0;
  bytes.remove_prefix(1);
  if (whole_file) {
    RunFile(bytes);
    return;
  }
  const auto record = DecodeRecordPayload(bytes);
  if (record.ok()) RunRecord(*record);
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) kvrouter::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
