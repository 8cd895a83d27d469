#ifndef KVROUTER_FEED_WIRE_FRAMES_H_
#define KVROUTER_FEED_WIRE_FRAMES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvrouter {

// The frames of one ZMQ message, as engines send them, without ZMQ.
//
//   live    topic | sequence (8 bytes, big-endian) | payload
//   replay  "" | sequence | payload               vLLM up to 0.25, SGLang
//           "" | topic | sequence | payload       vLLM from 0.26, TensorRT-LLM
//   end     as replay with sequence -1 and an empty payload

struct WireMessage {
  uint64_t sequence = 0;
  std::string_view payload;
  bool end_of_replay = false;
};

// Nothing when the frames are not of that shape. Sequence 2^64 - 1 is reserved for the end marker
// and refused live.
std::optional<WireMessage> ParseLiveFrames(std::span<const std::string_view> frames);
std::optional<WireMessage> ParseReplayFrames(std::span<const std::string_view> frames);

// The second frame of a replay request; the first one is empty.
std::array<char, 8> EncodeSequence(uint64_t sequence);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_WIRE_FRAMES_H_
