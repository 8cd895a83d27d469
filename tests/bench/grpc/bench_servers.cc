#include "bench_servers.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/grpc_server.h"
#include "adapters/grpc/request_convert.h"
#include "base/check.h"
#include "bench_fleet.h"
#include "bench_prompts.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter::bench {
namespace {

constexpr size_t kLongRequestBytes = 16'384;  // tells the two forms apart without parsing

// What Route answers.
v1::RouteResponse AnswerTo(Fleet* fleet, Form form) {
  v1::RouteRequest message = RequestOf(form);
  message.set_request_id("b-00000000");
  absl::StatusOr<RouteInput> input = FromProto(message);
  KVR_CHECK(input.ok(), "no request");
  std::string request_id;
  const auto decision = fleet->service.Route(std::move(input->request), &request_id);
  KVR_CHECK(decision.ok(), "not routed");
  fleet->service.Free(request_id);
  v1::RouteResponse answer;
  ToProto(request_id, *decision, &answer);
  return answer;
}

// One string, as long as the answer.
v1::RouteResponse SameSize(const v1::RouteResponse& answer) {
  v1::RouteResponse same;
  same.set_address(std::string(answer.ByteSizeLong() - 3, 'x'));  // 3: tag and length
  KVR_CHECK(same.ByteSizeLong() == answer.ByteSizeLong(), "{} bytes instead of {}",
            same.ByteSizeLong(), answer.ByteSizeLong());
  return same;
}

v1::StreamResponse StreamAnswer(const v1::RouteResponse& answer) {
  v1::StreamResponse message;
  message.set_correlation_id(1);
  *message.mutable_route() = answer;
  return message;
}

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const std::string text = message.SerializeAsString();
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// One message at a time: read, answer, read again.
template <typename Request, typename Response, typename Answer>
class PingPong final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit PingPong(Answer answer) : answer_(std::move(answer)) { this->StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    this->StartWrite(&answer_(request_));
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::CANCELLED);
    this->StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  const Answer answer_;
  Request request_;
};

class FixedService final : public v1::Router::CallbackService {
 public:
  explicit FixedService(Fleet* fleet) {
    for (const Form form : kForms) {
      unary_[form] = SameSize(AnswerTo(fleet, form));
      stream_[form] = StreamAnswer(unary_[form]);
    }
  }
  grpc::ServerUnaryReactor* Route(grpc::CallbackServerContext* context,
                                  const v1::RouteRequest* request,
                                  v1::RouteResponse* response) override {
    *response = unary_.at(FormOf(*request));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamResponse>* RouteStream(
      grpc::CallbackServerContext* /*context*/) override {
    const auto answer = [this](const v1::StreamRequest& request) -> const v1::StreamResponse& {
      return stream_.at(FormOf(request.route()));
    };
    return new PingPong<v1::StreamRequest, v1::StreamResponse, decltype(answer)>(answer);
  }

 private:
  static Form FormOf(const v1::RouteRequest& request) {
    return request.has_hashes() ? Form::kHashes2Kb : Form::kTokens56Kb;
  }
  std::map<Form, v1::RouteResponse> unary_;
  std::map<Form, v1::StreamResponse> stream_;
};

using RawService = v1::Router::WithRawCallbackMethod_Route<
    v1::Router::WithRawCallbackMethod_RouteStream<v1::Router::Service>>;

class EchoService final : public RawService {
 public:
  explicit EchoService(Fleet* fleet) {
    for (const Form form : kForms) {
      const v1::RouteResponse answer = SameSize(AnswerTo(fleet, form));
      unary_[form] = BytesOf(answer);
      stream_[form] = BytesOf(StreamAnswer(answer));
    }
  }
  grpc::ServerUnaryReactor* Route(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    *response = unary_.at(FormOf(*request));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* RouteStream(
      grpc::CallbackServerContext* /*context*/) override {
    const auto answer = [this](const grpc::ByteBuffer& request) -> const grpc::ByteBuffer& {
      return stream_.at(FormOf(request));
    };
    return new PingPong<grpc::ByteBuffer, grpc::ByteBuffer, decltype(answer)>(answer);
  }

 private:
  static Form FormOf(const grpc::ByteBuffer& request) {
    return request.Length() < kLongRequestBytes ? Form::kHashes2Kb : Form::kTokens56Kb;
  }
  std::map<Form, grpc::ByteBuffer> unary_;
  std::map<Form, grpc::ByteBuffer> stream_;
};

std::unique_ptr<grpc::Server> Serve(grpc::Service* service, int* port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
  builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  KVR_CHECK(server != nullptr, "no server");
  return server;
}

std::unique_ptr<GrpcServer> Serve(Fleet* fleet) {
  auto server = std::make_unique<GrpcServer>(GrpcServerConfig(),
                                             GrpcServer::Doors{.routing = &fleet->service,
                                                               .workers = &fleet->registry,
                                                               .feeds = nullptr,
                                                               .router = &fleet->router});
  KVR_CHECK(server->Start().ok(), "no server");
  return server;
}

}  // namespace

int ServeUntilInputEnds(int workers) {
  Fleet fleet(workers);
  Fleet winner_fleet(workers, DecisionDetail::kWinner);
  const auto server = Serve(&fleet);
  const auto winner_server = Serve(&winner_fleet);
  EchoService echo(&fleet);
  FixedService fixed(&fleet);
  int echo_port = 0;
  int fixed_port = 0;
  const auto echo_server = Serve(&echo, &echo_port);
  const auto fixed_server = Serve(&fixed, &fixed_port);
  fmt::print("127.0.0.1:{}\n127.0.0.1:{}\n{}\n{}\n", echo_port, fixed_port,
             winner_server->Address(), server->Address());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace kvrouter::bench
