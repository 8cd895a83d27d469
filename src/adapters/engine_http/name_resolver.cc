#include "adapters/engine_http/name_resolver.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMaxNames = 4096;
constexpr size_t kMaxAddresses = 16;
constexpr uint32_t kThreads = 2;
constexpr std::chrono::seconds kFailureTtl{1};
constexpr std::chrono::milliseconds kGraceAtEnd{500};

HostAddresses AskSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  HostAddresses answer;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    answer.problem = fmt::format("host name {}: {}", host, gai_strerror(error));
    return answer;
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[INET6_ADDRSTRLEN] = {};
    const void* address = nullptr;
    if (entry->ai_family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr;
    } else if (entry->ai_family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(entry->ai_addr)->sin6_addr;
    }
    if (address == nullptr || inet_ntop(entry->ai_family, address, text, sizeof(text)) == nullptr) {
      continue;
    }
    if (answer.addresses.size() < kMaxAddresses) answer.addresses.emplace_back(text);
  }
  freeaddrinfo(found);
  if (answer.addresses.empty()) answer.problem = fmt::format("host name {}: no address", host);
  return answer;
}

}  // namespace

// Outlives the resolver while a thread is in the system's resolver.
struct NameResolver::State {
  struct Name {
    HostAddresses answer;
    SteadyClock::time_point valid_until{};
    bool asked = false;  // the answer is on its way
    std::vector<Done> waiting;
  };

  State(std::chrono::nanoseconds t, std::shared_ptr<EngineLinkFigures> f)
      : ttl(t), figures(std::move(f)) {}

  // What a thread of the resolver does all the time.
  void Run();
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void StartThreads(const std::shared_ptr<State>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const std::chrono::nanoseconds ttl;
  const std::shared_ptr<EngineLinkFigures> figures;
  Mutex mu;
  CondVar changed;
  std::unordered_map<std::string, Name> names ABSL_GUARDED_BY(mu);
  std::deque<std::string> questions ABSL_GUARDED_BY(mu);
  std::vector<std::thread> threads ABSL_GUARDED_BY(mu);
  uint32_t running ABSL_GUARDED_BY(mu) = 0;  // threads that have not ended
  uint32_t telling ABSL_GUARDED_BY(mu) = 0;  // threads that call what waited
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

void NameResolver::State::Run() {
  MutexLock lock(mu);
  while (true) {
    while (!stopping && questions.empty()) changed.Wait(mu);
    if (stopping) break;
    const std::string host = std::move(questions.front());
    questions.pop_front();
    mu.Unlock();
    HostAddresses answer = AskSystem(host);
    mu.Lock();
    if (stopping) break;
    Count(&figures->names_asked);
    if (answer.addresses.empty()) Count(&figures->names_failed);
    Name& name = names[host];
    name.asked = false;
    name.answer = answer;
    name.valid_until =
        SteadyClock::now() +
        (answer.addresses.empty() ? std::min<std::chrono::nanoseconds>(kFailureTtl, ttl) : ttl);
    std::vector<Done> waiting = std::move(name.waiting);
    name.waiting.clear();
    ++telling;
    mu.Unlock();
    for (const Done& done : waiting) done(answer);
    waiting.clear();
    mu.Lock();
    --telling;
    changed.NotifyAll();
  }
  --running;
  changed.NotifyAll();
}

// Forgets what is out of date; if all is fresh, all but what is on its way.
void NameResolver::State::MakeRoom() {
  if (names.size() < kMaxNames) return;
  const SteadyClock::time_point now = SteadyClock::now();
  std::erase_if(names, [now](const auto& entry) {
    return !entry.second.asked && entry.second.valid_until <= now;
  });
  if (names.size() < kMaxNames) return;
  std::erase_if(names, [](const auto& entry) { return !entry.second.asked; });
}

void NameResolver::State::StartThreads(const std::shared_ptr<State>& self) {
  while (threads.size() < kThreads) {
    ++running;
    threads.emplace_back([self, index = threads.size()] {
      pthread_setname_np(pthread_self(), fmt::format("kvr-names-{}", index).c_str());
      self->Run();
    });
  }
}

NameResolver::NameResolver(std::chrono::nanoseconds ttl, std::shared_ptr<EngineLinkFigures> figures)
    : state_(std::make_shared<State>(ttl, std::move(figures))) {}

NameResolver::~NameResolver() {
  std::vector<std::thread> threads;
  bool ended = false;
  {
    MutexLock lock(state_->mu);
    state_->stopping = true;
    state_->changed.NotifyAll();
    const SteadyClock::time_point until = SteadyClock::now() + kGraceAtEnd;
    while (state_->telling > 0) state_->changed.Wait(state_->mu);
    while (state_->running > 0 && SteadyClock::now() < until) {
      state_->changed.WaitFor(state_->mu, until - SteadyClock::now());
    }
    ended = state_->running == 0;
    threads = std::move(state_->threads);
    state_->threads.clear();
    state_->names.clear();
  }
  for (std::thread& thread : threads) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();  // both: it has ended, or it owns a share of the state
    }
  }
}

void NameResolver::Resolve(const std::string& host, Done done) {
  HostAddresses answer;
  {
    MutexLock lock(state_->mu);
    auto found = state_->names.find(host);
    if (found == state_->names.end()) {
      state_->MakeRoom();
      if (state_->names.size() < kMaxNames) found = state_->names.try_emplace(host).first;
    }
    if (found == state_->names.end()) {
      answer.problem =
          fmt::format("host name {}: {} other names are being asked for", host, kMaxNames);
    } else if (!found->second.asked && found->second.valid_until > SteadyClock::now()) {
      answer = found->second.answer;
    } else {
      found->second.waiting.push_back(std::move(done));
      if (found->second.asked) return;
      found->second.asked = true;
      state_->questions.push_back(host);
      state_->StartThreads(state_);
      state_->changed.NotifyAll();
      return;
    }
  }
  done(answer);
}

void NameResolver::Forget(const std::string& host) {
  MutexLock lock(state_->mu);
  const auto found = state_->names.find(host);
  if (found != state_->names.end()) found->second.valid_until = {};
}

}  // namespace kvrouter
