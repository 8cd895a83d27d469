#include "sim/wire/event_encoder.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/wire/msgpack_writer.h"

namespace kvrouter::sim {
namespace {

WireBatch OneEvent(WireEvent event) {
  return {.wall_time_s = 1.5, .dp_rank = 3, .events = {std::move(event)}};
}

// The envelope is positional in both forms; only the events in it differ.
MsgpackWriter Envelope() {
  MsgpackWriter out;
  out.Array(3);
  out.Double(1.5);
  out.Array(1);
  return out;
}

TEST(EventEncoderTest, ArrayFormEndsAtTheLastFieldThatIsNotItsDefault) {
  MsgpackWriter expected = Envelope();
  expected.Array(11);
  expected.Str("BlockStored");
  expected.Array(1);
  expected.Uint(0xffffffffffffffff);
  expected.Uint(0);  // a parent hash of 0 is a parent
  expected.Array(2);
  expected.Uint(7);
  expected.Uint(4294967295);
  expected.Uint(2);
  expected.Nil();
  expected.Str("GPU");
  expected.Nil();
  expected.Nil();
  expected.Uint(0);
  expected.Str("full_attention");
  expected.Uint(3);
  const WireBatch batch = OneEvent(WireStored{.hashes = {EngineHash{0xffffffffffffffff}},
                                              .parent = EngineHash{0},
                                              .token_ids = {7, 4294967295},
                                              .block_size_tokens = 2});
  EXPECT_EQ(EncodeBatch(batch, EventForm::kArray), expected.Take());
}

TEST(EventEncoderTest, MapFormNamesTheTypeFirst) {
  MsgpackWriter expected = Envelope();
  expected.Map(4);
  expected.Str("type");
  expected.Str("BlockRemoved");
  expected.Str("block_hashes");
  expected.Array(1);
  expected.Uint(9);
  expected.Str("medium");
  expected.Str("GPU");
  expected.Str("group_idx");
  expected.Uint(0);
  expected.Uint(3);
  EXPECT_EQ(EncodeBatch(OneEvent(WireRemoved{EngineHash{9}}), EventForm::kMap), expected.Take());
}

}  // namespace
}  // namespace kvrouter::sim
