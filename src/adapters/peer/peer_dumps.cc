#include "adapters/peer/peer_dumps.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "client/http_get.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Ranks that lack their beginning find that out within a moment of each other.
constexpr std::chrono::milliseconds kGatherTime{200};

std::string_view WithoutScheme(std::string_view peer) {
  constexpr std::string_view kScheme = "http://";
  if (peer.starts_with(kScheme)) peer.remove_prefix(kScheme.size());
  if (peer.ends_with('/')) peer.remove_suffix(1);
  return peer;
}

bool IsHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view port = text.substr(colon + 1);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc() && end == port.data() + port.size() && number > 0 &&
         text.find_first_of("/?# ") == std::string_view::npos;
}

std::string TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

uint64_t BlocksIn(const std::vector<KvEvent>& events) {
  uint64_t blocks = 0;
  for (const KvEvent& event : events) blocks += std::get<Stored>(event.data).blocks.size();
  return blocks;
}

}  // namespace

absl::Status Validate(const PeerDumpsConfig& config) {
  for (const std::string& peer : config.peers) {
    if (IsHostPort(WithoutScheme(peer))) continue;
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
        fmt::format("indexer_peers: a peer is http://HOST:PORT or HOST:PORT, got \"{}\"", peer));
  }
  return absl::OkStatus();
}

std::string_view PeerDumpResultName(PeerDumpResult result) {
  switch (result) {
    case PeerDumpResult::kOk:
      return "ok";
    case PeerDumpResult::kUnreachable:
      return "unreachable";
    case PeerDumpResult::kTooLarge:
      return "too_large";
    case PeerDumpResult::kMalformed:
      return "malformed";
  }
  return "invalid";
}

std::string_view PeerRankOutcomeName(PeerRankOutcome outcome) {
  switch (outcome) {
    case PeerRankOutcome::kTaken:
      return "taken";
    case PeerRankOutcome::kOutdone:
      return "outdone";
    case PeerRankOutcome::kUnknown:
      return "unknown";
    case PeerRankOutcome::kUnanswered:
      return "unanswered";
  }
  return "invalid";
}

PeerDumps::PeerDumps(PeerDumpsConfig config, const Clock* clock)
    : config_(std::move(config)), clock_(clock) {}

PeerDumps::~PeerDumps() { Stop(); }

absl::Status PeerDumps::Start() {
  if (!HasPeers()) return absl::OkStatus();
  try {
    thread_ = std::jthread([this] { Run(); });
  } catch (const std::system_error& error) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("peer thread: {}", error.what()));
  }
  pthread_setname_np(thread_.native_handle(), "kvr-peers");
  return absl::OkStatus();
}

void PeerDumps::Stop() {
  std::vector<Wished> left;
  {
    MutexLock lock(mu_);
    stop_ = true;
    left.swap(wished_);
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  for (const Wished& wished : left) wished.answer(absl::CancelledError("shutting down"));
}

void PeerDumps::Request(const WorkerSpec& spec, uint32_t dp_rank, Answer answer) {
  {
    MutexLock lock(mu_);
    if (!stop_ && HasPeers()) {
      wished_.push_back({.wish = {.spec = spec, .dp_rank = dp_rank}, .answer = std::move(answer)});
      wake_.NotifyAll();
      return;
    }
  }
  answer(absl::CancelledError("no peers to ask"));
}

void PeerDumps::CountUse(Use use, uint64_t blocks) {
  const auto outcome = use == Use::kTaken ? PeerRankOutcome::kTaken : PeerRankOutcome::kOutdone;
  MutexLock lock(mu_);
  ++figures_.ranks[static_cast<size_t>(outcome)];
  if (use == Use::kTaken) figures_.blocks_taken += blocks;
}

bool PeerDumps::Stopping() const {
  MutexLock lock(mu_);
  return stop_;
}

void PeerDumps::Run() {
  std::vector<Wished> wished;
  while (WaitForWishes(&wished)) Round(std::exchange(wished, {}));
}

bool PeerDumps::WaitForWishes(std::vector<Wished>* out) {
  MutexLock lock(mu_);
  while (wished_.empty() && !stop_) wake_.Wait(mu_);
  const MonotonicTime end = clock_->Now() + kGatherTime;
  for (MonotonicTime left = kGatherTime; left > MonotonicTime::zero() && !stop_;
       left = end - clock_->Now()) {
    wake_.WaitFor(mu_, left);
  }
  if (stop_) return false;
  out->swap(wished_);
  return true;
}

void PeerDumps::Round(std::vector<Wished> wished) {
  const MonotonicTime deadline = clock_->Now() + config_.timeout;
  bool answered = false;
  for (const std::string& peer : config_.peers) {
    if (wished.empty() || clock_->Now() >= deadline || Stopping()) break;
    answered = AskPeer(std::string(WithoutScheme(peer)), deadline, &wished) || answered;
  }
  const auto outcome = answered ? PeerRankOutcome::kUnknown : PeerRankOutcome::kUnanswered;
  {
    MutexLock lock(mu_);
    figures_.ranks[static_cast<size_t>(outcome)] += wished.size();
  }
  for (const Wished& one : wished) {
    one.answer(answered ? absl::NotFoundError("no peer knows the rank")
                        : absl::UnavailableError("no peer answered"));
  }
}

bool PeerDumps::AskPeer(const std::string& peer, MonotonicTime deadline,
                        std::vector<Wished>* wished) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock_->Now());
  absl::StatusOr<std::string> body =
      client::HttpGet(peer, "/dump",
                      {.timeout = std::max(left, std::chrono::milliseconds(1)),
                       .max_body_bytes = config_.max_dump_bytes,
                       .cancelled = [this] { return Stopping(); }});
  if (!body.ok()) {
    CountDump(body.status().code() == absl::StatusCode::kResourceExhausted
                  ? PeerDumpResult::kTooLarge
                  : PeerDumpResult::kUnreachable,
              TextOf(body.status()));
    return false;
  }
  std::vector<PeerWish> wishes;
  for (const Wished& one : *wished) wishes.push_back(one.wish);
  auto found = ReadPeerDump(*std::move(body), wishes);
  if (!found.ok()) {
    CountDump(PeerDumpResult::kMalformed,
              fmt::format("http://{}/dump: {}", peer, TextOf(found.status())));
    return false;
  }
  CountDump(PeerDumpResult::kOk, "");
  std::vector<Wished> unknown;
  for (size_t i = 0; i < wished->size(); ++i) {
    Wished& one = (*wished)[i];
    const auto events = found->find(i);
    if (events == found->end()) {
      unknown.push_back(std::move(one));
      continue;
    }
    const uint64_t blocks = BlocksIn(events->second);
    one.answer(PeerRankBlocks{.peer = peer, .events = std::move(events->second), .blocks = blocks});
  }
  *wished = std::move(unknown);
  return true;
}

void PeerDumps::CountDump(PeerDumpResult result, std::string failure) {
  MutexLock lock(mu_);
  ++figures_.dumps[static_cast<size_t>(result)];
  figures_.failure = std::move(failure);
}

PeerDumps::Figures PeerDumps::Read() const {
  MutexLock lock(mu_);
  return figures_;
}

}  // namespace kvrouter
