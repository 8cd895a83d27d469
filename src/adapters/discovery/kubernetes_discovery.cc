#include "adapters/discovery/kubernetes_discovery.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "adapters/discovery/api_client.h"
#include "adapters/discovery/backoff.h"
#include "adapters/discovery/json_stream.h"
#include "adapters/discovery/list_watch.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr size_t kMaxPageBytes = size_t{64} << 20;
constexpr size_t kMaxEventBytes = size_t{8} << 20;  // etcd keeps objects of up to 1.5 MiB
constexpr milliseconds kBackoffFirst{200};
// Beyond the watch's own end: a server that keeps neither to its end nor to its bookmarks is gone.
constexpr milliseconds kWatchGrace{30000};
// A watch that ended sooner and empty did not work.
constexpr milliseconds kShortWatch{1000};

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word.substr(0, 253);  // the longest name there can be
}

SourceOutcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return SourceOutcome::kTimeout;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
      return SourceOutcome::kMalformed;
    default:
      return SourceOutcome::kConnection;
  }
}

std::string StatusText(int status) {
  const char* hint = "";
  if (status == 401) hint = ": the service account's token is not accepted";
  if (status == 403) hint = ": the service account may not list and watch this";
  if (status == 404) hint = ": no such namespace or resource";
  return fmt::format("HTTP status {}{}", status, hint);
}

}  // namespace

// Lists and watches one kind of objects for as long as it lives.
class KubernetesDiscovery::Follower {
 public:
  Follower(KubernetesDiscovery* owner, Kind kind, const ApiClientConfig& api, ListWatch list_watch)
      : owner_(owner),
        kind_(kind),
        client_(api),
        list_watch_(std::move(list_watch)),
        backoff_(kBackoffFirst, owner->config_.backoff_max,
                 static_cast<uint64_t>(SteadyClock().Now().count()) + kind),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Stop() {
    thread_.request_stop();
    client_.Stop();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Ending {
    std::optional<SourceOutcome> failure;  // absent: all went well
    std::string detail;
    milliseconds at_least{0};  // before the next question
  };
  const char* Name() const { return kind_ == kPods ? "pods" : "endpointslices"; }

  void Run(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), kind_ == kPods ? "kvr-k8s-pods" : "kvr-k8s-slices");
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(sleep_mu_);  // not between the test of Sleep and its wait
      sleep_.NotifyAll();
    });
    while (!stop.stop_requested()) {
      const bool lists = list_watch_.NeedsList();
      const Ending ending = lists ? List() : Watch();
      if (stop.stop_requested()) return;
      if (ending.failure) {
        NoteFailure(ending);
        // A version that is gone is no trouble of the server's: the list may follow at once. Not
        // twice.
        const bool at_once = *ending.failure == SourceOutcome::kExpired && !expired_before_;
        expired_before_ = *ending.failure == SourceOutcome::kExpired;
        if (!at_once) Sleep(stop, std::max(ending.at_least, backoff_.Next()));
      } else if (!lists) {
        expired_before_ = false;
        if (watch_was_short_) Sleep(stop, backoff_.Next());
      }
    }
  }

  Ending List() {
    std::string body;
    const auto answer = client_.Get({.target = list_watch_.Target(0),
                                     .timeout = owner_->config_.request_timeout,
                                     .max_body_bytes = kMaxPageBytes},
                                    [&body](std::string_view piece) {
                                      body += piece;
                                      return absl::OkStatus();
                                    });
    if (!answer.ok()) return {OutcomeOf(answer.status()), Text(answer.status())};
    if (answer->status != 200) return Refused(*answer);
    const Json page = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    MutexLock lock(owner_->mu_);
    if (const absl::Status status = list_watch_.OnListPage(page); !status.ok())
      return {SourceOutcome::kMalformed, Text(status)};
    if (!list_watch_.NeedsList()) {
      owner_->PublishLocked();
      owner_->journal_->Count(WorkerSource::kKubernetes, SourceOutcome::kApplied);
    }
    return {};
  }

  Ending Watch() {
    JsonStream stream(kMaxEventBytes);
    Ending ending;
    bool told_something = false;
    const milliseconds watch_timeout = owner_->config_.watch_timeout;
    const MonotonicTime begin = SteadyClock().Now();
    const auto answer = client_.Get(
        {.target = list_watch_.Target(owner_->config_.watch_timeout.count()),
         .timeout = owner_->config_.request_timeout,
         .silence = watch_timeout + kWatchGrace,
         .on_open = [this] { NoteWorks(); }},
        [&](std::string_view piece) { return OnPiece(piece, &stream, &ending, &told_something); });
    watch_was_short_ = !told_something && SteadyClock().Now() - begin < kShortWatch;
    if (!watch_was_short_) backoff_.Reset();
    if (ending.failure) return ending;
    if (!answer.ok()) return {OutcomeOf(answer.status()), Text(answer.status())};
    if (answer->status != 200) return Refused(*answer);
    if (!stream.AtBoundary()) return {SourceOutcome::kMalformed, "the watch ended within an event"};
    return {};
  }

  // An error ends the watch; `ending` then says why.
  absl::Status OnPiece(std::string_view piece, JsonStream* stream, Ending* ending,
                       bool* told_something) {
    std::vector<std::string> events;
    const absl::Status cut = stream->Feed(piece, &events);
    bool changed = false;
    for (const std::string& text : events) {
      const Json event = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      MutexLock lock(owner_->mu_);
      const ListWatch::WatchAnswer answer = list_watch_.OnWatchEvent(event);
      *ending = EndingOf(answer);
      if (ending->failure) break;
      *told_something = true;
      changed = changed || answer.verdict == ListWatch::Verdict::kChanged;
    }
    if (changed) owner_->Publish();
    if (!ending->failure && !cut.ok()) *ending = {SourceOutcome::kMalformed, Text(cut)};
    return ending->failure ? absl::AbortedError(ending->detail) : absl::OkStatus();
  }

  static Ending EndingOf(const ListWatch::WatchAnswer& answer) {
    switch (answer.verdict) {
      case ListWatch::Verdict::kChanged:
      case ListWatch::Verdict::kNothing:
        return {};
      case ListWatch::Verdict::kExpired:
        return {SourceOutcome::kExpired, answer.detail};
      case ListWatch::Verdict::kRefused:
        return {SourceOutcome::kStatus, answer.detail};
      case ListWatch::Verdict::kMalformed:
        return {SourceOutcome::kMalformed, answer.detail};
    }
    return {};
  }

  Ending Refused(const ApiClient::Answer& answer) {
    list_watch_.OnStatus(answer.status);
    return {answer.status == 410 ? SourceOutcome::kExpired : SourceOutcome::kStatus,
            StatusText(answer.status), answer.retry_after};
  }

  // A line when something new goes wrong, not at each attempt: the counters have those.
  void NoteFailure(const Ending& ending) {
    owner_->journal_->Count(WorkerSource::kKubernetes, *ending.failure);
    if (*ending.failure == SourceOutcome::kExpired) return;
    owner_->SetCurrent(kind_, false);
    if (last_detail_ == ending.detail) return;
    last_detail_ = ending.detail;
    owner_->journal_->Write({.warning = true,
                             .event = "kubernetes_kept_old_set",
                             .fields = {{"resource", Name()},
                                        {"reason", std::string(SourceOutcomeName(*ending.failure))},
                                        {"detail", ending.detail}}});
  }

  void NoteWorks() {
    owner_->SetCurrent(kind_, true);
    if (last_detail_.empty()) return;
    last_detail_.clear();
    owner_->journal_->Write(
        {.warning = false, .event = "kubernetes_current", .fields = {{"resource", Name()}}});
  }

  void Sleep(const std::stop_token& stop, milliseconds wait) {
    MutexLock lock(sleep_mu_);
    if (!stop.stop_requested()) sleep_.WaitFor(sleep_mu_, wait);
  }

  KubernetesDiscovery* const owner_;
  const Kind kind_;
  ApiClient client_;
  ListWatch list_watch_;  // own thread; what it writes to is under the owner's mutex
  Backoff backoff_;
  std::string last_detail_;
  bool watch_was_short_ = false;
  bool expired_before_ = false;
  Mutex sleep_mu_;
  CondVar sleep_;
  std::jthread thread_;  // last: it uses all of the above
};

KubernetesDiscovery::KubernetesDiscovery(KubernetesConfig config, WorkerSources* sources,
                                         DiscoveryJournal* journal)
    : config_(std::move(config)),
      sources_(sources),
      journal_(journal),
      fleet_({.block_size_tokens = config_.block_size_tokens,
              .may_be_learned = config_.may_be_learned},
             !config_.slice_selector.empty()) {}

KubernetesDiscovery::~KubernetesDiscovery() { Stop(); }

absl::Status KubernetesDiscovery::Start() {
  KVR_ASSIGN_OR_RETURN(const Origin origin, ParseOrigin(config_.api_server));
  std::string name_space = config_.pod_namespace;
  if (name_space.empty()) name_space = FirstWord(config_.namespace_file);
  if (name_space.empty()) name_space = "default";
  const ApiClientConfig api{
      .origin = origin, .ca_file = config_.ca_file, .token_file = config_.token_file};
  WatchedResource* pods = nullptr;
  WatchedResource* slices = nullptr;
  {
    MutexLock lock(mu_);
    pods = fleet_.pods();
    slices = fleet_.slices();
    current_[kSlices] = config_.slice_selector.empty();
  }
  followers_.push_back(
      std::make_unique<Follower>(this, kPods, api,
                                 ListWatch(fmt::format("/api/v1/namespaces/{}/pods", name_space),
                                           config_.pod_selector, pods)));
  if (config_.slice_selector.empty()) return absl::OkStatus();
  followers_.push_back(std::make_unique<Follower>(
      this, kSlices, api,
      ListWatch(fmt::format("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", name_space),
                config_.slice_selector, slices)));
  return absl::OkStatus();
}

void KubernetesDiscovery::Stop() {
  for (const auto& follower : followers_) follower->Stop();
  for (const auto& follower : followers_) follower->Join();
  followers_.clear();
}

void KubernetesDiscovery::Publish() {
  MutexLock lock(mu_);
  PublishLocked();
}

void KubernetesDiscovery::PublishLocked() {
  if (!fleet_.IsComplete()) return;
  PodFleet::View view = fleet_.Workers();
  // What is refused has its own line and counter, by worker.
  (void)sources_->Replace(WorkerSource::kKubernetes, view.workers);
  NoteProblemsLocked(std::move(view.problems));
}

void KubernetesDiscovery::NoteProblemsLocked(std::vector<PodFleet::Problem> problems) {
  for (const PodFleet::Problem& problem : problems) {
    if (std::find(problems_.begin(), problems_.end(), problem) != problems_.end()) continue;
    journal_->Count(WorkerSource::kKubernetes, SourceOutcome::kInvalid);
    journal_->Write({.warning = true,
                     .event = "pod_not_understood",
                     .fields = {{"pod", problem.pod}, {"detail", problem.what}}});
  }
  problems_ = std::move(problems);
}

void KubernetesDiscovery::SetCurrent(Kind kind, bool current) {
  MutexLock lock(mu_);
  current_[kind] = current;
  journal_->SetCurrent(WorkerSource::kKubernetes, current_[kPods] && current_[kSlices]);
}

}  // namespace kvrouter
