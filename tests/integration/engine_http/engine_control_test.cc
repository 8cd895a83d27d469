#include <gmock/gmock.h>

#include <random>

#include "link_fixture.h"

// Cancel, pause, stop, timers; and many threads at once.

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

class EngineControlTest : public LinkFixture {
 protected:
  bool NothingLeft() {
    return Eventually([this] {
      const EngineLinkCounters counters = link_->Counters();
      return counters.exchanges == 0 && counters.waiting == 0 &&
             counters.connections == counters.idle_connections;
    });
  }
};

TEST_F(EngineControlTest, CancelledAnswerClosesItsConnection) {
  std::atomic<bool> closed{false};
  ScriptedEngine engine([&closed](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n");
    closed.store(peer.WaitClosed());
  });
  StartLink();
  const auto reply = Send(Call(engine.Url()));
  ASSERT_TRUE(reply->WaitBody(1));
  last_->Cancel();
  last_->Cancel();
  EXPECT_TRUE(Eventually([&closed] { return closed.load(); }));
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(reply->End(), "none");
  EXPECT_EQ(link_->Counters().cancelled, 1u);
}

TEST_F(EngineControlTest, CancelledBeforeTheHeadClosesItsConnection) {
  std::atomic<bool> asked{false};
  std::atomic<bool> closed{false};
  ScriptedEngine engine([&](EnginePeer& peer, int) {
    peer.ReadRequest();
    asked.store(true);
    closed.store(peer.WaitClosed());
  });
  StartLink();
  const auto reply = Send(Call(engine.Url()));
  EXPECT_TRUE(Eventually([&asked] { return asked.load(); }));
  last_->Cancel();
  EXPECT_TRUE(Eventually([&closed] { return closed.load(); }));
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(reply->End(), "none");
}

TEST_F(EngineControlTest, CancelWhileTheRequestIsOnItsWay) {
  ScriptedEngine engine([](EnginePeer& peer, int) { EXPECT_TRUE(peer.WaitClosed()); }, 4096);
  StartLink();
  const auto reply = Send(Call(engine.Url(), std::string(32 << 20, 'x')));
  EXPECT_TRUE(Eventually([this] { return link_->Counters().sent_bytes > 0; }));
  last_->Cancel();
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(reply->End(), "none");
}

TEST_F(EngineControlTest, CancelWhileItWaitsForAConnection) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    EXPECT_TRUE(peer.WaitClosed());
  });
  EngineLinkConfig config;
  config.max_connections = 1;
  StartLink(config);
  Send(Call(engine.Url()));
  const auto holder = last_;
  const auto waiting = Send(Call(engine.Url()));
  EXPECT_TRUE(Eventually([this] { return link_->Counters().waiting == 1; }));
  last_->Cancel();
  EXPECT_TRUE(Eventually([this] { return link_->Counters().waiting == 0; }));
  holder->Cancel();
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(waiting->End(), "none");
  EXPECT_EQ(engine.Connections(), 1);
}

TEST_F(EngineControlTest, CancelAtOnceAndAfterTheEnd) {
  std::atomic<bool> answering{false};  // "at once" may come late: not behind the answer
  ScriptedEngine engine([&answering](EnginePeer& peer, int) {
    while (!peer.ReadRequest().empty()) {
      if (!answering.load()) {
        peer.WaitClosed();
        return;
      }
      peer.Send(Answer("ok"));
    }
  });
  StartLink();
  const auto at_once = Send(Call(engine.Url()));
  last_->Cancel();
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(at_once->End(), "none");
  answering.store(true);
  const auto reply = Ask(Call(engine.Url()));
  last_->Cancel();
  last_->Resume();
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(Ask(Call(engine.Url()))->End(), "complete");
  EXPECT_EQ(link_->Counters().cancelled, 1u);
  link_.reset();
}

TEST_F(EngineControlTest, CancelInsideACallIsTheLastOne) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    std::string answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (int i = 0; i < 100; ++i) answer += "1\r\na\r\n";
    peer.Send(answer + "0\r\n\r\n");
    peer.WaitClosed();
  });
  StartLink();
  auto reply = std::make_shared<RecordingReply>();
  std::atomic<bool> sent{false};
  reply->on_piece = [&] {
    while (!sent.load()) std::this_thread::yield();
    last_->Cancel();
  };
  last_ = link_->Send(Call(engine.Url()), reply);
  sent.store(true);
  EXPECT_TRUE(NothingLeft());
  EXPECT_EQ(reply->Pieces(), 1);
  EXPECT_EQ(reply->End(), "none");
}

TEST_F(EngineControlTest, PausedAnswerBlocksItsEngine) {
  constexpr size_t kBodyBytes = 64 << 20;
  std::atomic<size_t> sent_bytes{0};
  ScriptedEngine engine([&sent_bytes](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(kBodyBytes) + "\r\n\r\n");
    const std::string piece(65536, 'x');
    while (sent_bytes.load() < kBodyBytes && peer.Send(piece)) sent_bytes.fetch_add(piece.size());
  });
  StartLink();
  auto reply = std::make_shared<RecordingReply>();
  std::atomic<bool> sent{false};
  std::atomic<bool> paused{false};
  reply->on_piece = [&] {
    while (!sent.load()) std::this_thread::yield();
    if (!paused.exchange(true)) last_->Pause();
  };
  EngineCall call = Call(engine.Url());
  call.idle_timeout = milliseconds(2000);  // does not run while it is paused
  last_ = link_->Send(std::move(call), reply);
  sent.store(true);
  ASSERT_TRUE(Eventually([&paused] { return paused.load(); }));
  // The engine is stuck when its figure has not moved for a while.
  const auto start = std::chrono::steady_clock::now();
  size_t seen = 0;
  int still = 0;
  EXPECT_TRUE(Eventually([&] {
    const size_t now = sent_bytes.load();
    still = now == seen ? still + 1 : 0;
    seen = now;
    return still > 100 && std::chrono::steady_clock::now() - start > milliseconds(3000);
  }));
  EXPECT_LT(sent_bytes.load(), kBodyBytes);
  EXPECT_LE(reply->BodyBytes(), 65536u);
  EXPECT_EQ(reply->End(), "none");
  last_->Resume();
  ASSERT_TRUE(reply->WaitEnd());
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->BodyBytes(), kBodyBytes);
}

TEST_F(EngineControlTest, ManyPausesLoseNothing) {
  constexpr size_t kBodyBytes = 8 << 20;
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send(Answer(std::string(kBodyBytes, 'x')));
  });
  StartLink();
  const auto reply = Send(Call(engine.Url()));
  while (reply->End() == "none") {
    last_->Pause();
    std::this_thread::yield();
    last_->Resume();
  }
  EXPECT_EQ(reply->End(), "complete");
  EXPECT_EQ(reply->BodyBytes(), kBodyBytes);
}

TEST_F(EngineControlTest, CancelOfAPausedAnswerClosesIt) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc");
    EXPECT_TRUE(peer.WaitClosed());
  });
  StartLink();
  const auto reply = Send(Call(engine.Url()));
  ASSERT_TRUE(reply->WaitBody(3));
  last_->Pause();
  last_->Cancel();
  EXPECT_TRUE(NothingLeft());
}

TEST_F(EngineControlTest, StopEndsWhatRuns) {
  ScriptedEngine engine([](EnginePeer& peer, int number) {
    peer.ReadRequest();
    if (number == 1) peer.Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc");
    EXPECT_TRUE(peer.WaitClosed());
  });
  EngineLinkConfig config;
  config.max_connections = 2;
  StartLink(config);
  const auto no_head = Send(Call(engine.Url()));
  EXPECT_TRUE(Eventually([&engine] { return engine.Connections() == 1; }));
  const auto in_body = Send(Call(engine.Url()));
  ASSERT_TRUE(in_body->WaitBody(3));
  const auto waiting = Send(Call(engine.Url()));
  const auto handle = last_;
  std::atomic<bool> ran{false};
  const auto cancel = link_->After(std::chrono::hours(1), [&ran] { ran.store(true); });
  link_->Stop();
  EXPECT_EQ(no_head->End(), "shutting_down");
  EXPECT_EQ(in_body->End(), "shutting_down");
  EXPECT_EQ(waiting->End(), "shutting_down");
  EXPECT_EQ(link_->Counters().exchanges, 0u);
  EXPECT_EQ(link_->Counters().connections, 0u);
  EXPECT_EQ(Send(Call(engine.Url()))->End(), "none");  // dropped
  link_.reset();
  handle->Cancel();  // handles outlive the link
  handle->Resume();
  cancel();
  EXPECT_FALSE(ran.load());
}

TEST_F(EngineControlTest, TasksRunAfterTheirDelayUnlessCancelled) {
  StartLink();
  std::atomic<int> ran{0};
  const auto cancelled = link_->After(milliseconds(60), [&ran] { ran.fetch_add(100); });
  const auto done = link_->After(std::chrono::nanoseconds(0), [&ran] { ran.fetch_add(1); });
  cancelled();
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> late{false};
  link_->After(milliseconds(80), [&] { late.store(true); });
  EXPECT_TRUE(Eventually([&late] { return late.load(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(80));
  EXPECT_EQ(ran.load(), 1);
  done();  // nothing
  cancelled();
}

TEST_F(EngineControlTest, SendReturnsBeforeTheReplyIsCalled) {
  StartLink();
  auto reply = std::make_shared<RecordingReply>();
  Mutex mu;
  {
    // OnEnd would wait for this lock, and Send would deadlock if it called the reply itself.
    MutexLock lock(mu);
    struct Waits : RecordingReply {
      explicit Waits(Mutex* m) : mu(m) {}
      void OnEnd(EngineEnd end, std::string_view detail) override {
        { MutexLock wait(*mu); }
        RecordingReply::OnEnd(end, detail);
      }
      Mutex* mu;
    };
    auto waits = std::make_shared<Waits>(&mu);
    reply = waits;
    last_ = link_->Send(Call("nonsense"), waits);
  }
  ASSERT_TRUE(reply->WaitEnd());
  EXPECT_EQ(reply->End(), "bad_address");
}

TEST_F(EngineControlTest, ManyThreadsSendPauseAndCancelAtOnce) {
  constexpr int kThreads = 6;
  constexpr int kCallsEach = 60;
  ScriptedEngine engine([](EnginePeer& peer, int number) {
    for (int i = 0; !peer.ReadRequest().empty(); ++i) {
      std::string answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
      for (int chunk = 0; chunk < 20; ++chunk) answer += "4\r\nabcd\r\n";
      if (!peer.Send(answer)) return;
      if ((number + i) % 11 == 5) return;  // cut
      if (!peer.Send("0\r\n\r\n")) return;
      if ((number + i) % 7 == 3) return;
    }
  });
  EngineLinkConfig config;
  config.max_connections = 8;
  config.max_waiting = 1000;
  config.keep_idle_timeout = milliseconds(20);
  StartLink(config);
  std::atomic<int> complete{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::minstd_rand random(static_cast<unsigned>(t + 1));
        std::vector<std::pair<std::shared_ptr<RecordingReply>, std::shared_ptr<EngineExchange>>>
            open;
        for (int i = 0; i < kCallsEach; ++i) {
          auto reply = std::make_shared<RecordingReply>();
          auto exchange = link_->Send(Call(engine.Url()), reply);
          switch (random() % 4) {
            case 0:
              exchange->Cancel();
              break;
            case 1:
              exchange->Pause();
              exchange->Resume();
              [[fallthrough]];
            default:
              open.emplace_back(std::move(reply), std::move(exchange));
          }
          if (random() % 8 == 0) link_->Forget(engine.Url());
          link_->After(milliseconds(1), [] {})();
        }
        for (const auto& [reply, exchange] : open) {
          if (random() % 4 == 0) {
            exchange->Cancel();
            continue;
          }
          EXPECT_TRUE(reply->WaitEnd());
          EXPECT_TRUE(reply->InOrder());
          if (reply->End() != "complete") continue;
          complete.fetch_add(1);
          EXPECT_EQ(reply->BodyBytes(), 80u);
        }
      });
    }
  }
  EXPECT_TRUE(NothingLeft());
  EXPECT_GT(complete.load(), 0);
  const EngineLinkCounters counters = link_->Counters();
  EXPECT_EQ(counters.calls, static_cast<uint64_t>(kThreads * kCallsEach));
  uint64_t ended = counters.cancelled;
  for (const uint64_t end : counters.ends) ended += end;
  EXPECT_EQ(ended, counters.calls);
  link_.reset();
}

}  // namespace
}  // namespace kvrouter
