#ifndef KVROUTER_SIM_WIRE_KV_SIDE_CHANNEL_H_
#define KVROUTER_SIM_WIRE_KV_SIDE_CHANNEL_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "sim/wire/kv_params.h"

namespace kvrouter::sim {

// How simulated engines talk to each other where real ones use NIXL: POST /kv_pull on the source's
// HTTP port, {engine_id, request_id, compatibility, step}. step "begin" asks whether the blocks are
// still held and keeps them; "end" gives them back.
//
// Thread safety: thread-safe. Callbacks run on the channel's thread.
class KvSideChannel {
 public:
  // `error` is empty if the source answered 200.
  using Done = std::function<void(std::string error)>;

  explicit KvSideChannel(std::chrono::milliseconds timeout);
  ~KvSideChannel();  // stops; callbacks that have not run do not

  void Begin(const KvSource& source, const std::string& compatibility, Done done);
  void End(const KvSource& source);
  // Runs `task` on the channel's thread after `delay`.
  void After(std::chrono::milliseconds delay, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_KV_SIDE_CHANNEL_H_
