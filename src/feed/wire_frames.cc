#include "feed/wire_frames.h"

namespace kvrouter {
namespace {

constexpr uint64_t kEndSequence = UINT64_MAX;

std::optional<uint64_t> DecodeSequence(std::string_view frame) {
  if (frame.size() != 8) return std::nullopt;
  uint64_t sequence = 0;
  for (const char c : frame) sequence = (sequence << 8) | static_cast<uint8_t>(c);
  return sequence;
}

}  // namespace

std::optional<WireMessage> ParseLiveFrames(std::span<const std::string_view> frames) {
  if (frames.size() != 3) return std::nullopt;
  const std::optional<uint64_t> sequence = DecodeSequence(frames[1]);
  if (!sequence || *sequence == kEndSequence) return std::nullopt;
  return WireMessage{.sequence = *sequence, .payload = frames[2]};
}

std::optional<WireMessage> ParseReplayFrames(std::span<const std::string_view> frames) {
  if (!frames.empty() && frames.front().empty()) frames = frames.subspan(1);  // the delimiter
  if (frames.size() < 2 || frames.size() > 3) return std::nullopt;
  const std::optional<uint64_t> sequence = DecodeSequence(frames[frames.size() - 2]);
  if (!sequence) return std::nullopt;
  const std::string_view payload = frames.back();
  return WireMessage{
      .sequence = *sequence, .payload = payload, .end_of_replay = *sequence == kEndSequence};
}

std::array<char, 8> EncodeSequence(uint64_t sequence) {
  std::array<char, 8> frame;
  for (size_t i = 0; i < frame.size(); ++i) {
    frame[i] = static_cast<char>((sequence >> (8 * (frame.size() - 1 - i))) & 0xff);
  }
  return frame;
}

}  // namespace kvrouter
