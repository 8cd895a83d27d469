#include "adapters/engine_http/answer_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvrouter {
namespace {

struct Told final : AnswerSink {
  void OnHead(EngineReplyHead head) override { status = head.status; }
  void OnPiece(std::string_view piece) override { body += piece; }
  int status = 0;
  std::string body;
};

// However an engine's bytes are cut into reads.
TEST(AnswerParserTest, ChunkedBodyEndsByteByByte) {
  const std::string head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  for (const std::string_view chunks : {"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n",
                                        "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "0\r\nsum: 1\r\n\r\n"}) {
    for (size_t piece_bytes = 1; piece_bytes <= 6; ++piece_bytes) {
      SCOPED_TRACE(std::string(chunks) + " in pieces of " + std::to_string(piece_bytes));
      AnswerParser parser({}, /*head_only=*/false);
      Told told;
      ASSERT_EQ(parser.Feed(head, &told), AnswerParser::State::kNeedsMore);
      AnswerParser::State state = AnswerParser::State::kNeedsMore;
      for (size_t begin = 0; begin < chunks.size(); begin += piece_bytes) {
        ASSERT_EQ(state, AnswerParser::State::kNeedsMore) << "at byte " << begin;
        state = parser.Feed(chunks.substr(begin, piece_bytes), &told);
      }
      EXPECT_EQ(state, AnswerParser::State::kDone);
      EXPECT_EQ(told.body, chunks[0] == '0' ? "" : "abc");
      EXPECT_TRUE(parser.KeepsConnection());
    }
  }
}

// What has come of a chunk is passed on, not kept until the chunk is whole.
TEST(AnswerParserTest, ShortRestOfAChunkIsPassedOnAtOnce) {
  AnswerParser parser({}, /*head_only=*/false);
  Told told;
  parser.Feed("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\nevent", &told);
  parser.Feed("1\n", &told);
  EXPECT_EQ(told.body, "event1\n");
}

}  // namespace
}  // namespace kvrouter
