#include "feed/feed_stats.h"

namespace kvrouter {

std::string_view FeedStateName(FeedState state) {
  switch (state) {
    case FeedState::kNone:
      return "none";
    case FeedState::kConnecting:
      return "connecting";
    case FeedState::kRecovering:
      return "recovering";
    case FeedState::kLive:
      return "live";
    case FeedState::kDegraded:
      return "degraded";
  }
  return "invalid";
}

std::string_view DegradedReasonName(DegradedReason reason) {
  switch (reason) {
    case DegradedReason::kNone:
      return "none";
    case DegradedReason::kHistoryUnknown:
      return "history_unknown";
    case DegradedReason::kEventsLost:
      return "events_lost";
    case DegradedReason::kUnreadable:
      return "unreadable";
    case DegradedReason::kReconnected:
      return "reconnected";
    case DegradedReason::kReplayFailed:
      return "replay_failed";
    case DegradedReason::kUnknownParent:
      return "unknown_parent";
    case DegradedReason::kUnproved:
      return "unproved";
    case DegradedReason::kInDoubt:
      return "in_doubt";
    case DegradedReason::kBlockNaming:
      return "block_naming";
    case DegradedReason::kNoSocket:
      return "no_socket";
  }
  return "invalid";
}

std::string_view SkipReasonName(SkipReason reason) {
  switch (reason) {
    case SkipReason::kBadFraming:
      return "bad_framing";
    case SkipReason::kBadEnvelope:
      return "bad_envelope";
    case SkipReason::kBadEvent:
      return "bad_event";
    case SkipReason::kUnknownTag:
      return "unknown_tag";
    case SkipReason::kUnknownMedium:
      return "unknown_medium";
    case SkipReason::kOtherGroup:
      return "other_group";
    case SkipReason::kLengthMismatch:
      return "length_mismatch";
    case SkipReason::kPlaceholder:
      return "placeholder";
    case SkipReason::kBlockSize:
      return "block_size";
    case SkipReason::kPartialBlock:
      return "partial_block";
    case SkipReason::kMultimodal:
      return "multimodal";
    case SkipReason::kNonIntegerTokens:
      return "non_integer_tokens";
    case SkipReason::kRankOutOfRange:
      return "rank_out_of_range";
    case SkipReason::kDuplicateBatch:
      return "duplicate_batch";
    case SkipReason::kOversized:
      return "oversized";
    case SkipReason::kRemoteLocality:
      return "remote_locality";
    case SkipReason::kUnknownLora:
      return "unknown_lora";
    case SkipReason::kDisconnected:
      return "disconnected";
    case SkipReason::kTokenForm:
      return "token_form";
    case SkipReason::kStaleEvent:
      return "stale_event";
    case SkipReason::kOldPublisher:
      return "old_publisher";
    case SkipReason::kUnknownDomain:
      return "unsupported_residency_domain";
    case SkipReason::kCacheOwner:
      return "cache_owner";
    case SkipReason::kUnknownWorker:
      return "unknown_worker";
    case SkipReason::kOtherSource:
      return "other_source";
  }
  return "invalid";
}

}  // namespace kvrouter
