#include <gmock/gmock.h>
#include <sys/resource.h>

#include "link_fixture.h"

// Kept connections, bounds, addresses and time.

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class EngineConnectionsTest : public LinkFixture {};

// Answers every request on every connection.
void AnswerAll(EnginePeer& peer) {
  while (!peer.ReadRequest().empty()) peer.Send(Answer("ok"));
}

TEST_F(EngineConnectionsTest, KeptConnectionIsUsedAgain) {
  ScriptedEngine engine([](EnginePeer& peer, int) { AnswerAll(peer); });
  StartLink();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask(Call(engine.Url()))->Body(), "ok");
  EXPECT_EQ(engine.Connections(), 1);
  EXPECT_EQ(link_->Counters().connections_opened, 1u);
  EXPECT_EQ(link_->Counters().connections_reused, 19u);
  link_.reset();
}

TEST_F(EngineConnectionsTest, ConnectionThatEngineClosesIsNotKept) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send(Answer("ok", "connection: close\r\n"));
    peer.WaitClosed();
  });
  StartLink();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(Call(engine.Url()))->End(), "complete");
  EXPECT_EQ(engine.Connections(), 3);
  EXPECT_EQ(link_->Counters().connections_reused, 0u);
  link_.reset();
}

TEST_F(EngineConnectionsTest, WhatComesBehindAnAnswerSpoilsItsConnection) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send(Answer("ok") + Answer("poison"));
    peer.WaitClosed();
  });
  StartLink();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(Call(engine.Url()))->Body(), "ok");
  EXPECT_EQ(engine.Connections(), 3);
  link_.reset();
}

TEST_F(EngineConnectionsTest, UnaskedBytesOnAKeptConnectionCloseIt) {
  std::atomic<bool> poison{false};
  ScriptedEngine engine([&poison](EnginePeer& peer, int number) {
    if (number > 0) return AnswerAll(peer);
    peer.ReadRequest();
    peer.Send(Answer("ok"));
    EXPECT_TRUE(Eventually([&] { return poison.load(); }));
    peer.Send(Answer("poison"));
    EXPECT_TRUE(peer.WaitClosed());
  });
  StartLink();
  EXPECT_EQ(Ask(Call(engine.Url()))->Body(), "ok");
  poison.store(true);
  EXPECT_TRUE(Eventually([this] { return link_->Counters().idle_ended == 1; }));
  EXPECT_EQ(Ask(Call(engine.Url()))->Body(), "ok");
  EXPECT_EQ(engine.Connections(), 2);
  link_.reset();
}

TEST_F(EngineConnectionsTest, RequestOnADeadKeptConnectionIsSentOnceMore) {
  ScriptedEngine engine([](EnginePeer& peer, int number) {
    peer.ReadRequest();
    if (number == 0) {
      peer.Send(Answer("first"));
      peer.ReadRequest();  // of the second; closed without an answer
      return;
    }
    peer.Send(Answer("again"));
    AnswerAll(peer);
  });
  StartLink();
  EXPECT_EQ(Ask(Call(engine.Url()))->Body(), "first");
  const auto second = Ask(Call(engine.Url()));
  EXPECT_EQ(second->End(), "complete");
  EXPECT_EQ(second->Body(), "again");
  EXPECT_EQ(link_->Counters().retried, 1u);
  EXPECT_EQ(engine.Connections(), 2);
  link_.reset();
}

TEST_F(EngineConnectionsTest, ItIsSentOnlyOnceMore) {
  ScriptedEngine engine([](EnginePeer& peer, int number) {
    peer.ReadRequest();
    if (number > 0) return;
    peer.Send(Answer("first"));
    peer.ReadRequest();
  });
  StartLink();
  Ask(Call(engine.Url()));
  EXPECT_EQ(Ask(Call(engine.Url()))->End(), "cut");
  EXPECT_EQ(engine.Connections(), 2);
}

TEST_F(EngineConnectionsTest, AnAnswerThatBeganIsNotAskedForAgain) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send(Answer("first"));
    peer.ReadRequest();
    peer.Send("H");
  });
  StartLink();
  Ask(Call(engine.Url()));
  EXPECT_EQ(Ask(Call(engine.Url()))->End(), "cut");
  EXPECT_EQ(engine.Connections(), 1);
  EXPECT_EQ(link_->Counters().retried, 0u);
}

TEST_F(EngineConnectionsTest, UnusedConnectionIsClosedInTime) {
  std::atomic<int> closed{0};
  ScriptedEngine engine([&closed](EnginePeer& peer, int) {
    AnswerAll(peer);
    closed.fetch_add(1);
  });
  EngineLinkConfig config;
  config.keep_idle_timeout = milliseconds(50);
  StartLink(config);
  Ask(Call(engine.Url()));
  EXPECT_TRUE(Eventually([&closed] { return closed.load() == 1; }));
  // The engine may see it closed before we have counted it out.
  EXPECT_TRUE(Eventually([this] { return link_->Counters().connections == 0; }));
  EXPECT_EQ(link_->Counters().idle_timeouts, 1u);
}

TEST_F(EngineConnectionsTest, ForgottenAddressKeepsNoConnection) {
  std::atomic<int> closed{0};
  std::atomic<bool> finish{false};
  ScriptedEngine engine([&](EnginePeer& peer, int number) {
    if (number == 1) {
      peer.ReadRequest();
      peer.Send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no");
      EXPECT_TRUE(Eventually([&] { return finish.load(); }));
      peer.Send("k");
    }
    AnswerAll(peer);
    closed.fetch_add(1);
  });
  StartLink();
  Ask(Call(engine.Url()));
  link_->Forget(engine.Url());
  EXPECT_TRUE(Eventually([&] { return closed.load() == 1; }));
  // In the middle of an answer it goes on and closes at the end.
  const auto running = Send(Call(engine.Url()));
  ASSERT_TRUE(running->WaitBody(1));
  link_->Forget(engine.Url());
  finish.store(true);
  ASSERT_TRUE(running->WaitEnd());
  EXPECT_EQ(running->Body(), "ok");
  EXPECT_TRUE(Eventually([&] { return closed.load() == 2; }));
  EXPECT_EQ(link_->Counters().idle_connections, 0u);
}

TEST_F(EngineConnectionsTest, BeyondTheBoundsCallsWaitAndThenAreRefused) {
  std::atomic<bool> go{false};
  ScriptedEngine engine([&go](EnginePeer& peer, int) {
    while (!peer.ReadRequest().empty()) {
      EXPECT_TRUE(Eventually([&] { return go.load(); }));
      peer.Send(Answer("ok"));
    }
  });
  EngineLinkConfig config;
  config.max_connections = 2;
  config.max_waiting = 3;
  StartLink(config);
  std::vector<std::shared_ptr<RecordingReply>> replies;
  for (int i = 0; i < 5; ++i) replies.push_back(Send(Call(engine.Url())));
  EXPECT_TRUE(Eventually([this] { return link_->Counters().waiting == 3; }));
  const auto refused = Ask(Call(engine.Url()));
  EXPECT_EQ(refused->End(), "overloaded");
  EXPECT_THAT(refused->Detail(), HasSubstr("2 connections are in use and 3 calls wait"));
  go.store(true);
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply->WaitEnd());
    EXPECT_EQ(reply->End(), "complete");
  }
  EXPECT_LE(engine.Connections(), 2);
  EXPECT_EQ(link_->Counters().waiting, 0u);
  link_.reset();
}

TEST_F(EngineConnectionsTest, WaitingCallHasItsTime) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.WaitClosed();
  });
  EngineLinkConfig config;
  config.max_connections = 1;
  StartLink(config);
  Send(Call(engine.Url()));
  const auto holder = last_;
  EngineCall call = Call(engine.Url());
  call.head_timeout = milliseconds(50);
  const auto reply = Ask(std::move(call));
  EXPECT_EQ(reply->End(), "overloaded");
  EXPECT_THAT(reply->Detail(), HasSubstr("no connection became free in time"));
  holder->Cancel();
}

TEST_F(EngineConnectionsTest, SurplusOfABurstIsNotKept) {
  std::atomic<int> asked{0};
  ScriptedEngine engine([&asked](EnginePeer& peer, int) {
    while (!peer.ReadRequest().empty()) {
      asked.fetch_add(1);
      EXPECT_TRUE(Eventually([&] { return asked.load() >= 5; }));
      peer.Send(Answer("ok"));
    }
  });
  EngineLinkConfig config;
  config.max_idle_connections = 2;
  StartLink(config);
  std::vector<std::shared_ptr<RecordingReply>> replies;
  for (int i = 0; i < 5; ++i) replies.push_back(Send(Call(engine.Url())));
  for (const auto& reply : replies) ASSERT_TRUE(reply->WaitEnd());
  EXPECT_TRUE(Eventually([this] { return link_->Counters().connections == 2; }));
  EXPECT_EQ(link_->Counters().idle_surplus, 3u);
  link_.reset();
}

TEST_F(EngineConnectionsTest, RefusedConnectionIsToldWithItsCause) {
  std::string url;
  {
    ScriptedEngine engine([](EnginePeer&, int) {});
    url = engine.Url();
  }
  StartLink();
  const auto reply = Ask(Call(url));
  EXPECT_EQ(reply->End(), "connect_failed");
  EXPECT_THAT(reply->Detail(), HasSubstr(url));
  EXPECT_THAT(reply->Detail(), HasSubstr("refused"));
}

TEST_F(EngineConnectionsTest, WhereOpenFilesRunOutTheEngineIsNotToBlame) {
  ScriptedEngine engine([](EnginePeer&, int) {});
  StartLink();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto reply = Ask(Call(engine.Url()));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(reply->End(), "overloaded");
  EXPECT_THAT(reply->Detail(), HasSubstr("the router: Too many open files"));
}

TEST_F(EngineConnectionsTest, EveryAddressOfANameIsTried) {
  ScriptedEngine engine([](EnginePeer& peer, int) { AnswerAll(peer); });
  StartLink();
  // localhost is ::1 first where there is IPv6; the engine listens on 127.0.0.1 alone.
  const std::string url = "http://localhost:" + std::to_string(engine.port());
  EXPECT_EQ(Ask(Call(url))->Body(), "ok");
  link_->Forget(url);
  EXPECT_EQ(Ask(Call(url))->Body(), "ok");
  EXPECT_EQ(link_->Counters().names_asked, 2u);
  link_.reset();
}

TEST_F(EngineConnectionsTest, UnknownNameFails) {
  StartLink();
  const auto reply = Ask(Call("http://no-such-host.invalid:8000"));
  EXPECT_EQ(reply->End(), "connect_failed");
  EXPECT_THAT(reply->Detail(), HasSubstr("no-such-host.invalid"));
}

TEST_F(EngineConnectionsTest, AddressThatIsNoUrlIsRefused) {
  StartLink();
  for (const char* url : {"", "ftp://x", "10.0.0.1:8000", "http://", "http://a b", "http://[::1"}) {
    const auto reply = Ask(Call(url));
    EXPECT_EQ(reply->End(), "bad_address") << url;
    EXPECT_THAT(reply->Detail(), HasSubstr(url));
  }
  ScriptedEngine engine([](EnginePeer&, int) {});
  EngineCall split = Call(engine.Url());
  split.path = "/v1 HTTP/1.1\r\nx: y";
  EXPECT_EQ(Ask(std::move(split))->End(), "bad_address");
}

TEST_F(EngineConnectionsTest, SlowHeadAndStoppedAnswerTimeOut) {
  ScriptedEngine engine([](EnginePeer& peer, int number) {
    peer.ReadRequest();
    if (number == 1) peer.Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc");
    EXPECT_TRUE(peer.WaitClosed());
  });
  StartLink();
  EngineCall call = Call(engine.Url());
  call.head_timeout = milliseconds(100);
  EXPECT_EQ(Ask(call)->End(), "head_timeout");
  call.head_timeout = milliseconds(0);
  call.idle_timeout = milliseconds(100);
  const auto stopped = Ask(call);
  EXPECT_EQ(stopped->End(), "idle_timeout");
  EXPECT_EQ(stopped->Body(), "abc");
}

TEST_F(EngineConnectionsTest, EachPieceHasItsOwnTime) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n");
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(milliseconds(150));
      peer.Send("x");
    }
  });
  StartLink();
  EngineCall call = Call(engine.Url());
  call.idle_timeout = milliseconds(2000);  // of 3000 in all
  EXPECT_EQ(Ask(std::move(call))->End(), "complete");
}

}  // namespace
}  // namespace kvrouter
