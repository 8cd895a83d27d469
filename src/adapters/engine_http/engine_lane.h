#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LANE_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LANE_H_

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "adapters/engine_http/engine_link_figures.h"
#include "adapters/engine_http/engine_pool.h"
#include "adapters/engine_http/http_engine_link.h"
#include "adapters/engine_http/name_resolver.h"
#include "adapters/tls/tls_client.h"
#include "base/mutex.h"

namespace kvrouter {

class EngineLane;

// A task of EngineLink::After.
struct DelayedTask {
  DelayedTask(std::shared_ptr<EngineLane> lane, std::function<void()> task);

  const std::shared_ptr<EngineLane> lane;  // whose timer it is
  std::atomic<bool> claimed{false};        // it begins, or it was cancelled
  // The lane's thread alone, from Post on.
  std::function<void()> task;
  boost::asio::steady_timer timer;
};

// One thread of the link, with the engines that belong to it.
//
// Thread safety: Post and what is constant from any thread; Start and Stop from the link's owner;
// everything else on the lane's own thread. Handles that callers keep share the lane, so that they
// may be used after the link is gone; Stop leaves nothing in it that refers to it.
class EngineLane : public std::enable_shared_from_this<EngineLane> {
 public:
  EngineLane(std::shared_ptr<const EngineLinkConfig> config,
             std::shared_ptr<EngineLinkFigures> figures, NameResolver* names, TlsClient* tls);
  ~EngineLane();

  void Start(size_t number);
  // Ends what runs, then joins.
  void Stop();

  // Runs `task` on the lane's thread, later. False after Stop: it is dropped.
  template <class Task>
  bool Post(Task task) {
    MutexLock lock(post_mu_);
    if (closed_) return false;
    boost::asio::post(io_, std::move(task));
    return true;
  }

  const EngineLinkConfig& config() const { return *config_; }
  EngineLinkFigures& figures() { return *figures_; }
  NameResolver& names() { return *names_; }
  TlsClient& tls() { return *tls_; }
  boost::asio::io_context& io() { return io_; }

  // ---- On its thread ----
  bool Stopping() const { return stopping_; }
  // What was read is used up before anything else is read.
  std::span<char> read_buffer() { return read_buffer_; }
  absl::StatusOr<EnginePool*> PoolOf(const std::string& base_url);
  void Forget(const std::string& base_url);
  void SweepLater();
  void Arm(const std::shared_ptr<DelayedTask>& delayed,
           std::chrono::steady_clock::time_point deadline);

 private:
  void ShutDown();
  void Sweep();

  const std::shared_ptr<const EngineLinkConfig> config_;
  const std::shared_ptr<EngineLinkFigures> figures_;
  NameResolver* const names_;
  TlsClient* const tls_;

  Mutex post_mu_;
  bool closed_ ABSL_GUARDED_BY(post_mu_) = false;

  boost::asio::io_context io_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  bool stopping_ = false;
  std::vector<char> read_buffer_;
  std::unordered_map<std::string, std::unique_ptr<EnginePool>> pools_;
  bool sweeping_ = false;
  boost::asio::steady_timer sweep_timer_{io_};
  std::unordered_set<std::shared_ptr<DelayedTask>> delayed_;
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_LANE_H_
