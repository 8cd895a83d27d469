#include "adapters/http/dump_json.h"

#include <fmt/format.h>

#include "adapters/http/selection_answers.h"
#include "kvrouter/error.h"

namespace kvrouter {

absl::StatusOr<std::string> DumpJson(const Router& router) {
  std::string text = "{";
  for (const PartitionSnapshot& partition : router.Snapshot()) {
    text += text.size() > 1 ? "," : "";
    text += JsonText(fmt::format("{}:{}", partition.model_name, partition.routing_group));
    text += fmt::format(R"(:{{"block_size":{},"events":[)", partition.block_size_tokens);
    bool first = true;
    const auto dumped =
        router.Dump(partition.model_name, partition.routing_group, [&](const KvEvent& event) {
          if (!first) text += ",";
          first = false;
          text += EventJson(event);
          return text.size() <= kMaxDumpBytes;
        });
    text += "]";
    if (!dumped.ok()) {
      text += fmt::format(R"(,"error":{})", JsonText({dumped.status().message().data(),
                                                      dumped.status().message().size()}));
    }
    text += "}";
    if (text.size() > kMaxDumpBytes) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                       fmt::format("the dump is over {} bytes", kMaxDumpBytes));
    }
  }
  text += "}";
  return text;
}

}  // namespace kvrouter
