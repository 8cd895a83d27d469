#ifndef KVROUTER_TESTS_BENCH_GRPC_CLOSED_LOOP_H_
#define KVROUTER_TESTS_BENCH_GRPC_CLOSED_LOOP_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "bench_prompts.h"

namespace kvrouter::bench {

enum class Call { kUnary, kStream };

struct LoopConfig {
  Call call = Call::kUnary;
  Form form = Form::kHashes2Kb;
  int in_flight = 8;
  uint64_t first_id = 0;  // requests are named from here on
};

// Keeps `in_flight` requests under way until the time is over, then waits for their answers; how
// many were answered. Requests are serialised once, ids apart, and answers are not parsed: what the
// client costs is the same whoever answers.
uint64_t RunClosedLoop(const std::shared_ptr<grpc::Channel>& channel, const LoopConfig& config,
                       std::chrono::nanoseconds time);

// Gives back the bookings of `count` requests from `first_id` on.
void FreeAll(const std::shared_ptr<grpc::Channel>& channel, uint64_t first_id, uint64_t count);

}  // namespace kvrouter::bench

#endif  // KVROUTER_TESTS_BENCH_GRPC_CLOSED_LOOP_H_
