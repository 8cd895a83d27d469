#include "closed_loop.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter::bench {
namespace {

using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;
using Clock = std::chrono::steady_clock;

std::string NameOf(uint64_t id) { return fmt::format("b-{:08x}", id); }

// Requests that differ in their ids only, sharing the bytes of the prompt.
class RequestMaker {
 public:
  explicit RequestMaker(const LoopConfig& config)
      : call_(config.call),
        rest_(RequestOf(config.form).SerializeAsString()),
        next_(config.first_id) {}

  grpc::ByteBuffer Next() {
    v1::RouteRequest id;
    id.set_request_id(NameOf(next_.fetch_add(1, std::memory_order_relaxed)));
    std::string head = id.SerializeAsString();
    if (call_ == Call::kStream) {
      // Field 1, then field 2 as a length-delimited message whose bytes follow.
      v1::StreamRequest correlation;
      correlation.set_correlation_id(1);
      std::string before = correlation.SerializeAsString() + '\x12';
      for (size_t length = head.size() + rest_.size(); true; length >>= 7) {
        before += static_cast<char>(length < 128 ? length : (length & 127) | 128);
        if (length < 128) break;
      }
      head.insert(0, before);
    }
    const grpc::Slice slices[] = {grpc::Slice(head), rest_};
    return grpc::ByteBuffer(slices, 2);
  }
  uint64_t made() const { return next_.load(); }

 private:
  const Call call_;
  const grpc::Slice rest_;
  std::atomic<uint64_t> next_;
};

// Counts what still runs.
class Running {
 public:
  explicit Running(int count) : count_(count) {}
  void OneEnded() {
    MutexLock lock(mu_);
    if (--count_ == 0) ended_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mu_);
    while (count_ > 0) ended_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar ended_;
  int count_ ABSL_GUARDED_BY(mu_);
};

// One call after the other.
class UnaryLane {
 public:
  UnaryLane(Stub* stub, RequestMaker* maker, Clock::time_point end, Running* running)
      : stub_(stub), maker_(maker), end_(end), running_(running) {}

  void Start() {
    context_ = std::make_unique<grpc::ClientContext>();
    request_ = maker_->Next();
    response_.Clear();
    stub_->UnaryCall(context_.get(), "/kvrouter.v1.Router/Route", {}, &request_, &response_,
                     [this](const grpc::Status& status) {
                       KVR_CHECK(status.ok(), "call failed: {}", status.error_message());
                       if (Clock::now() < end_) return Start();
                       running_->OneEnded();
                     });
  }

 private:
  Stub* const stub_;
  RequestMaker* const maker_;
  const Clock::time_point end_;
  Running* const running_;
  std::unique_ptr<grpc::ClientContext> context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

// One stream with `in_flight` messages unanswered.
class StreamLane final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamLane(Stub* stub, RequestMaker* maker, int in_flight, Clock::time_point end,
             Running* running)
      : maker_(maker), in_flight_(in_flight), end_(end), running_(running) {
    stub->PrepareBidiStreamingCall(&context_, "/kvrouter.v1.Router/RouteStream", {}, this);
    AddHold();  // writes start from reactions of reads
    StartRead(&response_);
    StartCall();
    Write();
  }

  void OnWriteDone(bool ok) override {
    KVR_CHECK(ok, "stream broke");
    {
      MutexLock lock(mu_);
      writing_ = false;
    }
    Write();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      MutexLock lock(mu_);
      --unanswered_;
    }
    Write();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    KVR_CHECK(status.ok(), "stream failed: {}", status.error_message());
    running_->OneEnded();
  }

 private:
  void Write() {
    bool close = false;
    {
      MutexLock lock(mu_);
      if (writing_ || closed_) return;
      close = Clock::now() >= end_;
      closed_ = close;
      if (!close) {
        if (unanswered_ >= in_flight_) return;
        ++unanswered_;
        writing_ = true;
        request_ = maker_->Next();
      }
    }
    if (!close) return StartWrite(&request_);
    StartWritesDone();
    RemoveHold();
  }

  RequestMaker* const maker_;
  const int in_flight_;
  const Clock::time_point end_;
  Running* const running_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  Mutex mu_;
  int unanswered_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

uint64_t RunClosedLoop(const std::shared_ptr<grpc::Channel>& channel, const LoopConfig& config,
                       std::chrono::nanoseconds time) {
  Stub stub(channel);
  RequestMaker maker(config);
  const Clock::time_point end = Clock::now() + time;
  if (config.call == Call::kStream) {
    Running running(1);
    const StreamLane lane(&stub, &maker, config.in_flight, end, &running);
    running.Wait();
    return maker.made() - config.first_id;
  }
  Running running(config.in_flight);
  std::vector<std::unique_ptr<UnaryLane>> lanes;
  for (int i = 0; i < config.in_flight; ++i) {
    lanes.push_back(std::make_unique<UnaryLane>(&stub, &maker, end, &running));
    lanes.back()->Start();
  }
  running.Wait();
  return maker.made() - config.first_id;
}

void FreeAll(const std::shared_ptr<grpc::Channel>& channel, uint64_t first_id, uint64_t count) {
  const auto stub = v1::Router::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->RouteStream(&context);
  std::jthread reader([&] {
    v1::StreamResponse answer;
    while (stream->Read(&answer)) {
    }
  });
  v1::StreamRequest request;
  for (uint64_t id = first_id; id < first_id + count; ++id) {
    request.mutable_free()->set_request_id(NameOf(id));
    KVR_CHECK(stream->Write(request), "stream broke");
  }
  stream->WritesDone();
  reader.join();
  KVR_CHECK(stream->Finish().ok(), "stream failed");
}

}  // namespace kvrouter::bench
