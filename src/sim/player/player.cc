#include "sim/player/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "sim/player/completion_client.h"
#include "sim/player/door_explanation.h"
#include "sim/player/prompt_body.h"
#include "sim/player/route_client.h"

namespace kvrouter::sim {
namespace {

namespace asio = boost::asio;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kProgressPeriod{200};

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Player::Impl {
  // A request that is ready to leave, made while the one before was waited for.
  struct Prepared {
    size_t row = 0;
    size_t target = 0;  // of policies that choose here
    v1::RouteRequest route;
    std::string body;
  };

  PlayConfig config;
  const Trace& trace;
  std::vector<PlayTarget> targets;
  std::function<void(const PlayProgress&)> progress;

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer arrival_timer{io};
  asio::steady_timer progress_timer{io};
  std::vector<std::unique_ptr<CompletionClient>> engines;  // by target
  std::unique_ptr<RouteClient> router;                     // null: through the door
  std::unique_ptr<CompletionClient> door;                  // null: by the router's advice
  std::mt19937_64 random;

  SteadyTime start;
  size_t rows = 0;
  size_t next_row = 0;
  size_t in_flight = 0;
  std::optional<Prepared> prepared;
  PlayOutcome outcome;

  // A request that was booked. Its reports go one after another: the router serves calls in
  // parallel, so a Free could overtake.
  struct Flight {
    size_t row = 0;
    std::string id;
    bool prefill_report_open = false;
    bool ended = false;
  };

  Impl(PlayConfig play, const Trace& played, std::vector<PlayTarget> on,
       const std::string& router_grpc);

  SteadyTime DueTime(size_t row) const {
    const double real_ns = static_cast<double>(trace.rows[row].arrival.count()) / config.speedup;
    return start + std::chrono::nanoseconds(static_cast<int64_t>(real_ns));
  }
  std::string RequestId(size_t row) const { return fmt::format("{}-{}", config.run_id, row); }
  size_t ChooseTarget(size_t row);

  void Prepare();
  void ScheduleNext();
  void SendDue();
  void Send(Prepared request);
  void SendToDoor(size_t row, std::string body);
  void CountDecided(size_t row, uint64_t overlap_blocks);
  void Dispatch(size_t row, std::string body, const v1::RouteResponse& decision);
  void ReportPrefill(const std::shared_ptr<Flight>& flight);
  void ReportEnd(const std::shared_ptr<Flight>& flight);
  void Fail(const std::string& why);
  void EndOfRequest();
  void FinishIfDone();
  void TickProgress();
  PlayProgress Progress() const;
};

Player::Impl::Impl(PlayConfig play, const Trace& played, std::vector<PlayTarget> on,
                   const std::string& router_grpc)
    : config(std::move(play)), trace(played), targets(std::move(on)), random(config.seed) {
  KVR_CHECK(!targets.empty(), "no targets");
  rows = trace.rows.size();
  if (config.max_requests > 0) rows = std::min(rows, config.max_requests);
  for (const PlayTarget& target : targets) {
    engines.push_back(
        std::make_unique<CompletionClient>(&io, target.address, config.stall_timeout));
  }
  if (!config.door.empty()) {
    KVR_CHECK(config.policy == PlayPolicy::kKv, "a door chooses by itself");
    door = std::make_unique<CompletionClient>(&io, config.door, config.stall_timeout);
    return;
  }
  router = std::make_unique<RouteClient>(&io, router_grpc, config.route_timeout);
}

size_t Player::Impl::ChooseTarget(size_t row) {
  if (config.policy == PlayPolicy::kRandom) {
    return std::uniform_int_distribution<size_t>(0, targets.size() - 1)(random);
  }
  return row % targets.size();
}

void Player::Impl::Prepare() {
  if (next_row >= rows || prepared.has_value()) return;
  Prepared request;
  request.row = next_row;
  const std::vector<TokenId> tokens = PromptTokens(trace, next_row);
  request.body = CompletionRequestBody(
      tokens, std::max<uint64_t>(1, trace.rows[next_row].osl_tokens), config.model_name);
  if (door != nullptr) {
    prepared = std::move(request);
    return;
  }
  request.route.set_request_id(RequestId(next_row));
  request.route.set_model_name(config.model_name);
  request.route.mutable_token_ids()->mutable_ids()->Add(tokens.begin(), tokens.end());
  if (config.policy != PlayPolicy::kKv) {
    request.target = ChooseTarget(next_row);
    v1::TargetSelector* pinned = request.route.mutable_pinned();
    pinned->set_worker_id(targets[request.target].worker_id);
    pinned->set_dp_rank(targets[request.target].dp_rank);
  }
  prepared = std::move(request);
}

void Player::Impl::ScheduleNext() {
  if (outcome.stopped || next_row >= rows) return FinishIfDone();
  Prepare();
  arrival_timer.expires_at(DueTime(next_row));
  arrival_timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) SendDue();
  });
}

void Player::Impl::SendDue() {
  while (next_row < rows && !outcome.stopped && in_flight < config.max_in_flight &&
         DueTime(next_row) <= std::chrono::steady_clock::now()) {
    Prepare();
    ++next_row;
    Send(*std::exchange(prepared, std::nullopt));
  }
  // At the bound the next one leaves when a request ends.
  if (in_flight < config.max_in_flight) ScheduleNext();
}

void Player::Impl::Send(Prepared request) {
  ++outcome.sent;
  ++in_flight;
  outcome.late_s.push_back(Seconds(std::chrono::steady_clock::now() - DueTime(request.row)));
  if (door != nullptr) return SendToDoor(request.row, std::move(request.body));
  router->Route(std::move(request.route), [this, row = request.row, body = std::move(request.body)](
                                              absl::StatusOr<v1::RouteResponse> decision) mutable {
    if (outcome.stopped) return;
    if (!decision.ok()) {
      Fail(decision.status().ToString());
      return EndOfRequest();
    }
    Dispatch(row, std::move(body), *decision);
  });
}

void Player::Impl::CountDecided(size_t row, uint64_t overlap_blocks) {
  outcome.full_block_tokens +=
      trace.rows[row].isl_tokens / trace.block_size_tokens * trace.block_size_tokens;
  outcome.overlap_blocks += overlap_blocks;
  outcome.isl_tokens += trace.rows[row].isl_tokens;
}

void Player::Impl::SendToDoor(size_t row, std::string body) {
  CompletionClient::Request request;
  request.body = std::move(body);
  request.headers = {{"x-request-id", RequestId(row)}, {"x-route-explain", "1"}};
  if (const std::string& session = trace.rows[row].session_id; !session.empty()) {
    request.headers.emplace_back("x-session-id", session);
  }
  request.on_head = [this, row](const CompletionClient::Headers& headers) {
    if (outcome.stopped) return;
    const DoorExplanation why = ReadExplanation(headers);
    CountDecided(row, why.overlap_tokens / trace.block_size_tokens);
    ++outcome.plans[why.plan];
  };
  request.on_first_token = [this, row] {
    if (outcome.stopped) return;
    outcome.ttft_s.push_back(Seconds(std::chrono::steady_clock::now() - DueTime(row)));
  };
  request.on_done = [this](const absl::Status& status) {
    if (outcome.stopped) return;
    if (status.ok()) {
      ++outcome.completed;
    } else {
      Fail(status.ToString());
    }
    EndOfRequest();
  };
  door->Post(std::move(request));
}

void Player::Impl::Dispatch(size_t row, std::string body, const v1::RouteResponse& decision) {
  CountDecided(row, decision.overlap_blocks());
  auto flight = std::make_shared<Flight>(Flight{.row = row, .id = RequestId(row)});
  const auto target = std::find_if(targets.begin(), targets.end(), [&](const PlayTarget& known) {
    return known.worker_id == decision.target().worker_id() &&
           known.dp_rank == decision.target().dp_rank();
  });
  if (target == targets.end()) {
    Fail(fmt::format("the router chose worker {} rank {}, which it did not list",
                     decision.target().worker_id(), decision.target().dp_rank()));
    return ReportEnd(flight);
  }
  CompletionClient::Request request;
  request.body = std::move(body);
  if (target->one_of_many) request.dp_rank = fmt::format("{}", target->dp_rank);
  request.on_first_token = [this, flight] {
    if (outcome.stopped) return;
    outcome.ttft_s.push_back(Seconds(std::chrono::steady_clock::now() - DueTime(flight->row)));
    ReportPrefill(flight);
  };
  request.on_done = [this, flight](const absl::Status& status) {
    if (outcome.stopped) return;
    if (status.ok()) {
      ++outcome.completed;
    } else {
      Fail(status.ToString());
    }
    flight->ended = true;
    if (!flight->prefill_report_open) ReportEnd(flight);
  };
  engines[static_cast<size_t>(target - targets.begin())]->Post(std::move(request));
}

void Player::Impl::ReportPrefill(const std::shared_ptr<Flight>& flight) {
  flight->prefill_report_open = true;
  router->PrefillComplete(flight->id, [this, flight](const absl::Status& status) {
    flight->prefill_report_open = false;
    if (outcome.stopped) return;
    if (!status.ok()) Fail(status.ToString());
    if (flight->ended) ReportEnd(flight);
  });
}

void Player::Impl::ReportEnd(const std::shared_ptr<Flight>& flight) {
  router->Free(flight->id, [this](const absl::Status& status) {
    if (outcome.stopped) return;
    if (!status.ok()) Fail(status.ToString());
    EndOfRequest();
  });
}

void Player::Impl::Fail(const std::string& why) {
  ++outcome.failed;
  if (outcome.first_failure.empty()) outcome.first_failure = why;
}

void Player::Impl::EndOfRequest() {
  const bool was_full = in_flight == config.max_in_flight;
  --in_flight;
  if (was_full) SendDue();
  FinishIfDone();
}

void Player::Impl::FinishIfDone() {
  if (next_row < rows || in_flight > 0) return;
  io.stop();
}

PlayProgress Player::Impl::Progress() const {
  PlayProgress now{
      .total = rows, .sent = outcome.sent, .in_flight = in_flight, .failed = outcome.failed};
  now.elapsed_s = Seconds(std::chrono::steady_clock::now() - start);
  if (!outcome.late_s.empty()) now.late_s = outcome.late_s.back();
  if (outcome.isl_tokens > 0) {
    now.hit_so_far = static_cast<double>(outcome.overlap_blocks * trace.block_size_tokens) /
                     static_cast<double>(outcome.isl_tokens);
  }
  return now;
}

void Player::Impl::TickProgress() {
  progress(Progress());
  progress_timer.expires_after(kProgressPeriod);
  progress_timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) TickProgress();
  });
}

Player::Player(PlayConfig config, const Trace& trace, std::vector<PlayTarget> targets,
               const std::string& router_grpc)
    : impl_(std::make_unique<Impl>(std::move(config), trace, std::move(targets), router_grpc)) {}

Player::~Player() = default;

PlayOutcome Player::Run(const std::function<void(const PlayProgress&)>& progress) {
  impl_->progress = progress;
  impl_->start = std::chrono::steady_clock::now();
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->TickProgress();
    impl->ScheduleNext();
  });
  impl_->io.run();
  impl_->progress(impl_->Progress());
  impl_->outcome.wall_s = Seconds(std::chrono::steady_clock::now() - impl_->start);
  return impl_->outcome;
}

void Player::Stop() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->outcome.stopped = true;
    impl->io.stop();
  });
}

}  // namespace kvrouter::sim
