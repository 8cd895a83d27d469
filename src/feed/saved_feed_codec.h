#ifndef KVROUTER_FEED_SAVED_FEED_CODEC_H_
#define KVROUTER_FEED_SAVED_FEED_CODEC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "feed/saved_feed.h"

namespace kvrouter {

// One saved feed as bytes: 16 per block (its two hashes), a few per event of up to 256 blocks, what
// the filter remembers, and some 100 for the feed. Numbers are LEB128,
// hashes 8 bytes little endian.
std::string EncodeFeed(const SavedFeed& feed);

// Error: bytes that EncodeFeed cannot have written, whatever their checksum says. What comes out
// takes memory in proportion to `payload`.
absl::StatusOr<SavedFeed> DecodeFeed(std::string_view payload);

// Only what it speaks of: `progress` is empty.
absl::StatusOr<SavedFeed> DecodeFeedHead(std::string_view payload);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_SAVED_FEED_CODEC_H_
