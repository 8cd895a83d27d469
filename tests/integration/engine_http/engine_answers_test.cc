#include <gmock/gmock.h>

#include "link_fixture.h"

// Answers, whole and broken, byte by byte.

namespace kvrouter {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

class EngineAnswersTest : public LinkFixture {
 protected:
  // Asks an engine that reads one request, sends `bytes` and closes.
  std::shared_ptr<RecordingReply> AskWhoSends(std::string bytes, EngineCall call = Call("")) {
    ScriptedEngine engine([&bytes](EnginePeer& peer, int) {
      peer.ReadRequest();
      peer.Send(bytes);
    });
    if (link_ == nullptr) StartLink();
    call.base_url = engine.Url();
    return Ask(std::move(call));
  }
};

TEST_F(EngineAnswersTest, RequestArrivesAsItWasGiven) {
  std::string seen;
  ScriptedEngine engine([&seen](EnginePeer& peer, int) {
    seen = peer.ReadRequest();
    peer.Send(Answer("hello"));
  });
  StartLink();
  EngineCall call = Call(engine.Url() + "/engines/7/", "{\"a\":1}");
  call.headers.emplace_back("x-request-id", "r-1");
  const auto reply = Ask(std::move(call));
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->Status(), 200);
  EXPECT_EQ(reply->Body(), "hello");
  EXPECT_EQ(reply->Detail(), "");
  EXPECT_EQ(seen, "POST /engines/7/v1/completions HTTP/1.1\r\nhost: 127.0.0.1:" +
                      std::to_string(engine.port()) +
                      "\r\ncontent-type: application/json\r\nx-request-id: r-1\r\n"
                      "content-length: 7\r\n\r\n{\"a\":1}");
}

TEST_F(EngineAnswersTest, FieldsOfTheConnectionAreNeitherSentNorTold) {
  std::string seen;
  ScriptedEngine engine([&seen](EnginePeer& peer, int) {
    seen = peer.ReadRequest();
    peer.Send(Answer("x",
                     "Connection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
                     "X-Kept: 2\r\nSet-Cookie: a\r\nset-cookie: b\r\n"));
  });
  StartLink();
  EngineCall call = Call(engine.Url());
  call.headers.emplace_back("connection", "close");
  call.headers.emplace_back("transfer-encoding", "chunked");
  call.headers.emplace_back("x-split", "a\r\nx-smuggled: 1");
  call.headers.emplace_back("bad name", "1");
  const auto reply = Ask(std::move(call));
  EXPECT_THAT(seen, Not(HasSubstr("connection")));
  EXPECT_THAT(seen, Not(HasSubstr("transfer-encoding")));
  EXPECT_THAT(seen, Not(HasSubstr("smuggled")));
  EXPECT_THAT(seen, Not(HasSubstr("bad name")));
  EXPECT_EQ(reply->Headers(),
            (HeaderList{{"x-kept", "2"}, {"set-cookie", "a"}, {"set-cookie", "b"}}));
}

TEST_F(EngineAnswersTest, ChunksOfAnySizeMakeOneBody) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;ext=\"v\"\r\n \r\nA\r\n0123456789\r\n0\r\nx-trailer: 1\r\n\r\n";
  StartLink();
  const auto whole = AskWhoSends(chunked);
  EXPECT_EQ(whole->End(), "complete");
  EXPECT_EQ(whole->Body(), "hello 0123456789");

  ScriptedEngine slow([&chunked](EnginePeer& peer, int) {
    peer.ReadRequest();
    for (const char byte : chunked) {
      peer.Send({&byte, 1});
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  const auto bytewise = Ask(Call(slow.Url()));
  EXPECT_EQ(bytewise->End(), "complete");
  EXPECT_EQ(bytewise->Body(), "hello 0123456789");
}

TEST_F(EngineAnswersTest, PiecesComeWhileTheAnswerGoesOn) {
  std::atomic<bool> first_seen{false};
  ScriptedEngine engine([&first_seen](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
    EXPECT_TRUE(Eventually([&] { return first_seen.load(); }));
    peer.Send("3\r\ndef\r\n0\r\n\r\n");
  });
  StartLink();
  const auto reply = Send(Call(engine.Url()));
  ASSERT_TRUE(reply->WaitBody(3));
  EXPECT_EQ(reply->End(), "none");
  first_seen.store(true);
  ASSERT_TRUE(reply->WaitEnd());
  EXPECT_EQ(reply->Body(), "abcdef");
}

TEST_F(EngineAnswersTest, AnswerWithoutLengthEndsWithItsConnection) {
  const auto reply = AskWhoSends("HTTP/1.1 200 OK\r\n\r\nuntil the end");
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->Body(), "until the end");
  EXPECT_EQ(link_->Counters().connections_reused, 0u);
}

TEST_F(EngineAnswersTest, LargeBodyIsPassedOnWhole) {
  std::string body(9 << 20, 'x');  // beyond the limit Beast has by default
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>('a' + i % 26);
  const auto reply = AskWhoSends(Answer(body));
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->Body(), body);
  EXPECT_GT(reply->Pieces(), 10);
}

TEST_F(EngineAnswersTest, AnswersWithoutBodyEndAtTheirHead) {
  EngineCall head = Call("");
  head.method = "HEAD";
  head.body = nullptr;
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", head)->End(),
            "complete");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 204 No Content\r\n\r\n")->End(), "complete");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n")->End(),
            "complete");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")->End(), "complete");
}

TEST_F(EngineAnswersTest, InterimAnswersArePassedOver) {
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  const auto one =
      AskWhoSends(interim + "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + Answer("done"));
  EXPECT_EQ(one->End(), "complete");
  EXPECT_EQ(one->Body(), "done");
  std::string many;
  for (int i = 0; i < 9; ++i) many += interim;
  const auto refused = AskWhoSends(many + Answer("done"));
  EXPECT_EQ(refused->End(), "cut");
  EXPECT_THAT(refused->Detail(), HasSubstr("more than 8 interim answers"));
  EXPECT_EQ(AskWhoSends("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")->End(), "cut");
}

TEST_F(EngineAnswersTest, CutAnswersAreToldFromWholeOnes) {
  const std::vector<std::string> cut = {
      "HTT",
      "HTTP/1.1 200 OK\r\ncontent-le",
      "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
      "HTTP/1.1 100 Continue\r\n\r\n",
  };
  for (const std::string& bytes : cut) {
    const auto reply = AskWhoSends(bytes);
    EXPECT_EQ(reply->End(), "cut") << bytes;
    EXPECT_THAT(reply->Detail(), StartsWith("http://127.0.0.1:")) << bytes;
    EXPECT_THAT(reply->Detail(), HasSubstr("closed in the middle")) << bytes;
  }
}

TEST_F(EngineAnswersTest, WhatIsNotHttpIsCut) {
  const std::vector<std::string> garbage = {
      "SSH-2.0-OpenSSH_9.2\r\n",
      "HTTP/2.0 200 OK\r\n\r\n",
      "HTTP/1.1 2000 OK\r\n\r\n",
      "HTTP/1.1 099 No\r\n\r\n",
      "HTTP/1.1 200 OK\r\nbad field\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
  };
  for (const std::string& bytes : garbage) {
    const auto reply = AskWhoSends(bytes);
    EXPECT_EQ(reply->End(), "cut") << bytes;
    EXPECT_NE(reply->Detail(), "") << bytes;
    EXPECT_EQ(reply->Detail().find('\n'), std::string::npos) << bytes;
  }
}

TEST_F(EngineAnswersTest, HeadsAndChunkLinesHaveABound) {
  EngineLinkConfig config;
  config.max_head_bytes = 4096;
  StartLink(config);
  const std::string bomb(100000, 'a');
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 OK\r\nx: " + bomb + "\r\n\r\n")->End(), "cut");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 " + bomb)->End(), "cut");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + bomb)->End(),
            "cut");
  EXPECT_EQ(AskWhoSends("HTTP/1.1 200 OK\r\nx: " + std::string(3000, 'a') +
                        "\r\ncontent-length: 0\r\n\r\n")
                ->End(),
            "complete");
}

TEST_F(EngineAnswersTest, RefusalBeforeTheRequestIsReadArrives) {
  // Its window is small, so that most of the body is still here when the answer comes.
  ScriptedEngine engine(
      [](EnginePeer& peer, int) {
        peer.Send("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
        peer.CloseSending();
        peer.WaitClosed();
      },
      4096);
  StartLink();
  const auto reply = Ask(Call(engine.Url(), std::string(32 << 20, 'x')));
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->Status(), 413);
  EXPECT_EQ(reply->Body(), "big");
  EXPECT_TRUE(Eventually([this] { return link_->Counters().connections == 0; }));
}

TEST_F(EngineAnswersTest, RequestThatWasNotTakenWholeWasNotSent) {
  ScriptedEngine engine(
      [](EnginePeer& peer, int) {
        char byte = 0;
        recv(peer.fd(), &byte, 1, 0);
        peer.Reset();
      },
      4096);
  StartLink();
  const auto reply = Ask(Call(engine.Url(), std::string(32 << 20, 'x')));
  EXPECT_EQ(reply->End(), "not_sent");
}

TEST_F(EngineAnswersTest, ConnectionClosedWithoutAnAnswerIsCut) {
  EXPECT_EQ(AskWhoSends("")->End(), "cut");
  ScriptedEngine resets([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Reset();
  });
  EXPECT_EQ(Ask(Call(resets.Url()))->End(), "cut");
}

}  // namespace
}  // namespace kvrouter
