#include "sim/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>

namespace kvrouter::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTwoRows =
    R"({"timestamp":1000,"input_length":9,"output_length":2,"hash_ids":[0,1,7]})"
    "\n"
    R"({"timestamp":1500.25,"session_id":"s","input_length":4,"output_length":3,"hash_ids":[0]})"
    "\n";

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "kvr_trace_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string WriteFile(const std::string& name, std::string_view bytes) {
    const std::string path = folder_ + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
    return path;
  }

  static std::string Gzip(std::string_view bytes) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, bytes.size()), '\0');
    std::string in(bytes);
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  static std::string Xz(std::string_view bytes) {
    std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
    size_t out_bytes = 0;
    EXPECT_EQ(lzma_easy_buffer_encode(
                  6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(bytes.data()),
                  bytes.size(), reinterpret_cast<uint8_t*>(out.data()), &out_bytes, out.size()),
              LZMA_OK);
    out.resize(out_bytes);
    return out;
  }

  std::string ErrorOf(const std::string& path, uint32_t block_size_tokens = 4) {
    const auto trace = ReadTrace(path, block_size_tokens);
    EXPECT_FALSE(trace.ok());
    return std::string(trace.status().message());
  }

  std::string folder_;
};

void ExpectTwoRows(const absl::StatusOr<Trace>& trace) {
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->rows.size(), 2u);
  const TraceRow& first = trace->rows[0];
  EXPECT_EQ(first.arrival, MonotonicTime(0));
  EXPECT_EQ(first.isl_tokens, 9u);
  EXPECT_EQ(first.osl_tokens, 2u);
  EXPECT_THAT(first.block_ids, ElementsAre(0, 1)) << "the id of the partial block is ignored";
  EXPECT_EQ(first.session_id, "");
  const TraceRow& second = trace->rows[1];
  EXPECT_EQ(second.arrival, std::chrono::microseconds(500'250));
  EXPECT_THAT(second.block_ids, ElementsAre(0));
  EXPECT_EQ(second.session_id, "s");
}

TEST_F(TraceTest, PlainGzipAndXzGiveTheSameRows) {
  ExpectTwoRows(ReadTrace(WriteFile("t.jsonl", kTwoRows), 4));
  ExpectTwoRows(ReadTrace(WriteFile("t.jsonl.gz", Gzip(kTwoRows)), 4));
  ExpectTwoRows(ReadTrace(WriteFile("t.jsonl.xz", Xz(kTwoRows)), 4));
}

TEST_F(TraceTest, SeveralGzipMembersAreOneFile) {
  const size_t cut = kTwoRows.size() / 2;  // in the middle of a row
  ExpectTwoRows(
      ReadTrace(WriteFile("t.gz", Gzip(kTwoRows.substr(0, cut)) + Gzip(kTwoRows.substr(cut))), 4));
}

TEST_F(TraceTest, TheLastLineNeedsNoLineEndAndBlankLinesAreSkipped) {
  const std::string text = "\n" + std::string(kTwoRows) + "\r\n";
  ExpectTwoRows(ReadTrace(WriteFile("t", text), 4));
  ExpectTwoRows(ReadTrace(WriteFile("t", kTwoRows.substr(0, kTwoRows.size() - 1)), 4));
}

TEST_F(TraceTest, RowsLongerThanAChunkAreRead) {
  std::string text;
  for (int row = 0; row < 3; ++row) {
    text += R"({"timestamp":0,"input_length":150000,"output_length":1,"hash_ids":[0)";
    for (int id = 1; id < 150'000; ++id) text += "," + std::to_string(id);
    text += "]}\n";
  }
  for (const std::string& path :
       {WriteFile("t", text), WriteFile("t.gz", Gzip(text)), WriteFile("t.xz", Xz(text))}) {
    const auto trace = ReadTrace(path, 1);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ASSERT_EQ(trace->rows.size(), 3u);
    for (const TraceRow& row : trace->rows) {
      ASSERT_EQ(row.block_ids.size(), 150'000u);
      EXPECT_EQ(row.block_ids.back(), 149'999u);
    }
  }
}

TEST_F(TraceTest, RowsAreSortedByArrivalAndKeepFileOrderForEqualTimes) {
  const auto trace =
      ReadTrace(WriteFile("t", R"({"timestamp":9,"input_length":1,"output_length":1,"hash_ids":[]}
{"timestamp":5,"input_length":2,"output_length":1,"hash_ids":[]}
{"timestamp":5,"input_length":3,"output_length":1,"hash_ids":[]})"),
                4);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rows[0].isl_tokens, 2u);
  EXPECT_EQ(trace->rows[1].isl_tokens, 3u);
  EXPECT_EQ(trace->rows[2].isl_tokens, 1u);
  EXPECT_EQ(trace->rows[2].arrival, std::chrono::milliseconds(4));
}

TEST_F(TraceTest, ErrorsNameTheFileTheLineAndTheField) {
  const auto error_of_second_line = [&](std::string_view line) {
    return ErrorOf(WriteFile(
        "bad.jsonl", std::string(kTwoRows.substr(0, kTwoRows.find('\n') + 1)) + std::string(line)));
  };
  EXPECT_THAT(error_of_second_line("{"), HasSubstr("bad.jsonl:2: "));
  EXPECT_THAT(error_of_second_line("[1]"), HasSubstr("bad.jsonl:2: "));
  EXPECT_THAT(error_of_second_line(R"({"timestamp":1,"input_length":1,"output_length":1})"),
              AllOf(HasSubstr("bad.jsonl:2: "), HasSubstr("hash_ids")));
  EXPECT_THAT(
      error_of_second_line(R"({"timestamp":1,"input_length":-1,"output_length":1,"hash_ids":[]})"),
      AllOf(HasSubstr("bad.jsonl:2: "), HasSubstr("input_length")));
  EXPECT_THAT(error_of_second_line(
                  R"({"timestamp":1,"input_length":1,"output_length":1e30,"hash_ids":[]})"),
              HasSubstr("output_length"));
  EXPECT_THAT(
      error_of_second_line(R"({"timestamp":"1","input_length":1,"output_length":1,"hash_ids":[]})"),
      HasSubstr("timestamp"));
  EXPECT_THAT(error_of_second_line(
                  R"({"timestamp":1,"input_length":8,"output_length":1,"hash_ids":[1,-2]})"),
              HasSubstr("element 1"));
  EXPECT_THAT(
      error_of_second_line(
          R"({"timestamp":1,"input_length":8,"output_length":1,"hash_ids":[1,2147483648]})"),
      HasSubstr("element 1"));
}

TEST_F(TraceTest, AWrongBlockSizeIsRefused) {
  const std::string path = WriteFile("t.jsonl", kTwoRows);
  EXPECT_THAT(ErrorOf(path, 2), HasSubstr("wrong block size?"));
  EXPECT_THAT(ErrorOf(path, 8), HasSubstr("wrong block size?"));
  EXPECT_THAT(ErrorOf(path, 0), HasSubstr("block size must be > 0"));
}

TEST_F(TraceTest, BrokenAndMissingFilesAreErrorsThatNameTheFile) {
  EXPECT_THAT(ErrorOf(folder_ + "/none.jsonl"), HasSubstr("none.jsonl: cannot open"));
  const std::string gzip = Gzip(kTwoRows);
  EXPECT_THAT(ErrorOf(WriteFile("cut.gz", std::string_view(gzip).substr(0, gzip.size() - 9))),
              HasSubstr("cut.gz"));
  std::string flipped = gzip;
  flipped[gzip.size() - 6] = static_cast<char>(~flipped[gzip.size() - 6]);  // in the checksum
  EXPECT_THAT(ErrorOf(WriteFile("flipped.gz", flipped)), HasSubstr("flipped.gz"));
  const std::string xz = Xz(kTwoRows);
  EXPECT_THAT(ErrorOf(WriteFile("cut.xz", std::string_view(xz).substr(0, xz.size() - 9))),
              HasSubstr("cut.xz"));
  EXPECT_THAT(ErrorOf(folder_), HasSubstr("read error"));
}

TEST_F(TraceTest, AnEmptyFileIsAnEmptyTrace) {
  const auto trace = ReadTrace(WriteFile("empty.jsonl", ""), 4);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(trace->rows.empty());
  EXPECT_EQ(trace->name, "empty");
}

TEST_F(TraceTest, PromptTokensRepeatTheIdAndTheTailIsTheRowsOwn) {
  const auto trace = ReadTrace(WriteFile("t.jsonl", kTwoRows), 4);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(PromptTokens(*trace, 0), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 0x8000'0000));
  EXPECT_THAT(PromptTokens(*trace, 1), ElementsAre(0, 0, 0, 0));
}

uint64_t FullBlocks(const Trace& trace) {
  return std::accumulate(
      trace.rows.begin(), trace.rows.end(), uint64_t{0},
      [](uint64_t sum, const TraceRow& row) { return sum + row.block_ids.size(); });
}

TEST(TraceFilesTest, KeptTracesHaveTheirKnownSizes) {
  const auto skewed = ReadTrace("tests/data/traces/skewed_isl.jsonl.gz", 256);
  ASSERT_TRUE(skewed.ok()) << skewed.status();
  EXPECT_EQ(skewed->name, "skewed_isl");
  EXPECT_EQ(skewed->rows.size(), 4'000u);
  EXPECT_EQ(FullBlocks(*skewed), 220'427u);

  const auto mooncake = ReadTrace("tests/data/traces/mooncake_conversation.jsonl.gz", 512);
  ASSERT_TRUE(mooncake.ok()) << mooncake.status();
  EXPECT_EQ(mooncake->rows.size(), 12'031u);
  EXPECT_EQ(FullBlocks(*mooncake), 276'491u);
}

}  // namespace
}  // namespace kvrouter::sim
