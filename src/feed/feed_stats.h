#ifndef KVROUTER_FEED_FEED_STATS_H_
#define KVROUTER_FEED_FEED_STATS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvrouter {

// What a feed knows about one engine socket. Shown per worker and in metrics.
enum class FeedState : uint8_t {
  kNone,        // no event endpoint configured
  kConnecting,  // no connection yet; nothing is known
  kRecovering,  // a replay is running
  kLive,        // history complete as far as can be known
  kDegraded,    // live, but blocks may be missing, or be there no more: what was lost or could not
                // be read, and no replay brought
};
std::string_view FeedStateName(FeedState state);

// Why a feed is degraded. Label values of kvrouter_feed_degraded; a sentence goes with each.
enum class DegradedReason : uint8_t {
  kNone,            // it is not
  kHistoryUnknown,  // what the rank held before the first event we have is not known
  kEventsLost,      // events did not come, and nobody could bring them
  kUnreadable,      // an event came, but could not be read
  kReconnected,     // the connection broke, and nobody can tell what was said meanwhile
  kReplayFailed,    // asked for its history, the engine did not answer, or not to the end
  kUnknownParent,   // stores continue blocks that nobody told us of
  kUnproved,        // known from another router only
  kInDoubt,         // events may have been lost; the next one will tell
  kBlockNaming,     // the engine names its blocks otherwise than the partition does
  kNoSocket,        // no socket could be opened for it
};
inline constexpr int kDegradedReasonCount = 11;
std::string_view DegradedReasonName(DegradedReason reason);

// Why a message, an event or part of one was not applied. Label values of
// kvrouter_feed_skipped_total.
enum class SkipReason : uint8_t {
  kBadFraming,        // not 3 frames, or the sequence frame is not 8 bytes: message refused
  kBadEnvelope,       // payload is not a batch, or bytes end early: message refused
  kBadEvent,          // one event malformed: that event skipped
  kUnknownTag,        // event type we do not know
  kUnknownMedium,     // storage medium we do not know (fail closed)
  kOtherGroup,        // not a full-attention KV group
  kLengthMismatch,    // token count != hashes * block size (sliding window, sparse groups)
  kPlaceholder,       // store without tokens
  kBlockSize,         // block size differs from the partition's
  kPartialBlock,      // short page or partial block, and its later removal
  kMultimodal,        // multimodal content whose identity is not known
  kNonIntegerTokens,  // token items that are neither integers nor pairs that follow on each other
  kRankOutOfRange,    // batch rank outside the worker's ranks
  kDuplicateBatch,    // already applied: equal sequence and timestamp, or already replayed
  kOversized,         // a length over the decoder's limits
  kRemoteLocality,    // block lies elsewhere than at the publisher
  kUnknownLora,       // adapter known only by its per-process number, which names nothing outside
  kDisconnected,      // left over from a connection that broke: its successor's replay brings it
  kTokenForm,         // single tokens where an EAGLE engine sends pairs: the one ahead is unknown
  // Dynamo's event plane.
  kStaleEvent,     // its id was passed already
  kOldPublisher,   // another publisher of the rank has taken over since
  kUnknownDomain,  // residency domain we do not know (fail closed)
  kCacheOwner,     // blocks of a cache that is not the worker's own
  kUnknownWorker,  // of no registered worker and rank
  kOtherSource,    // of a rank whose engine we hear on a socket of its own
};
inline constexpr int kSkipReasonCount = 25;
std::string_view SkipReasonName(SkipReason reason);

// Indexed by SkipReason.
using SkipCounts = std::array<uint64_t, kSkipReasonCount>;
inline void CountSkip(SkipReason reason, SkipCounts* counts) {
  ++(*counts)[static_cast<size_t>(reason)];
}

// Monotone counters of one feed.
struct FeedCounters {
  uint64_t messages = 0;         // live messages received
  uint64_t batches_applied = 0;  // live and replayed
  uint64_t events_applied = 0;   // events handed on to the index
  uint64_t gaps = 0;             // live sequence jumped ahead
  uint64_t restarts = 0;         // the engine began a new life on the same socket
  uint64_t replays_started = 0;
  uint64_t replays_completed = 0;
  uint64_t replays_failed = 0;  // time-out, or history gone
  uint64_t reconnects = 0;
  uint64_t live_dropped = 0;  // live messages dropped because the buffer during a replay was full
  // Hashes not remembered because a bounded memory was full (hash_memory.h).
  uint64_t hash_memory_full = 0;
  SkipCounts skipped{};
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_FEED_STATS_H_
