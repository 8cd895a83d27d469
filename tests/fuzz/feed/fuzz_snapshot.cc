// Bytes of a snapshot. The first byte chooses: even, the rest is a whole file; odd, it is what one
// section holds, which is also framed and read back. Whatever can be read is written and read
// again, restored into a feed, and applied to an index, as after the engine has proved it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/index/block_index.h"
#include "feed/engine_feed.h"
#include "feed/saved_feed_codec.h"
#include "feed/snapshot_frames.h"

namespace kvrouter {
namespace {

absl::StatusOr<SnapshotContents> Read(std::string_view file) {
  return ReadSnapshot(file.size(), [rest = file](char* out, size_t bytes) mutable {
    KVR_CHECK(bytes <= rest.size(), "reads {} of {}", bytes, rest.size());
    std::memcpy(out, rest.data(), bytes);
    rest.remove_prefix(bytes);
    return true;
  });
}

void RunRestored(const SavedFeed& saved) {
  EngineFeed feed({.target = {saved.spec.id, saved.rank},
                   .incarnation = saved.spec.incarnation,
                   .dp_start_rank = saved.spec.dp_start_rank,
                   .dp_size = saved.spec.dp_size,
                   .block_size_tokens = saved.spec.block_size_tokens,
                   .is_eagle = saved.spec.is_eagle,
                   .image_token_id = saved.spec.image_token_id,
                   .has_replay = true});
  feed.Restore(saved.progress);
  KVR_CHECK(feed.Save().has_value(), "what was saved cannot be saved again");
  std::vector<KvEvent> out;
  feed.OnConnected(&out);
  const auto request = feed.TakeReplayRequest({});
  KVR_CHECK(request && request->from_sequence == saved.progress.applied.sequence, "no question");
  feed.OnReplayedBatch({.mark = saved.progress.applied}, {}, &out);
  BlockIndex index;
  for (const KvEvent& event : out) feed.OnApplyResult(event, index.Apply(event));
  index.CheckInvariants();
}

void RunPayload(std::string_view payload) {
  const auto feed = DecodeFeed(payload);
  KVR_CHECK(!feed.ok() || DecodeFeedHead(payload).ok(), "a feed without a head");
  if (!feed.ok()) return;
  const std::string written = EncodeFeed(*feed);
  const auto again = DecodeFeed(written);
  KVR_CHECK(again.ok() && EncodeFeed(*again) == written, "does not come back");
  RunRestored(*again);
}

void Run(std::string_view bytes) {
  const bool whole_file = (bytes[0] & 1) == 0;
  bytes.remove_prefix(1);
  if (whole_file) {
    const auto contents = Read(bytes);
    if (!contents.ok()) return;
    for (const std::string& payload : contents->payloads) RunPayload(payload);
    return;
  }
  RunPayload(bytes);
  SnapshotFrames frames;
  std::string file = SnapshotFrames::Header(1);
  file += frames.Section(bytes);
  file += bytes;
  file += frames.End();
  const auto contents = Read(file);
  KVR_CHECK(contents.ok() && contents->payloads.size() == 1 && contents->payloads[0] == bytes,
            "a framed payload does not come back");
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) kvrouter::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
