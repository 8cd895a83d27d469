#include "adapters/nats/nats_connection.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/nats/nats_options.h"

namespace kvrouter {
namespace {

constexpr std::chrono::milliseconds kLastCallbackWait{1000};

}  // namespace

NatsConnection::NatsConnection(const NatsEventSourceConfig& config, PlaneIntake* intake)
    : config_(config), intake_(intake), shared_(std::make_shared<Shared>(intake)) {}

NatsConnection::~NatsConnection() {
  for (Subscription& subscription : subscriptions_) natsSubscription_Destroy(subscription.handle);
  if (connection_ != nullptr) {
    natsConnection_Close(connection_);
    natsConnection_Destroy(connection_);
  }
  MutexLock lock(shared_->mu);
  // So that no message of this connection comes after what is said of the next one. The library may
  // owe us its last word for long, so this has a bound; what follows has none, for the intake may
  // end before a thread that is in it runs again.
  while (shared_->open_callbacks > 0) {
    if (!shared_->changed.WaitFor(shared_->mu, kLastCallbackWait)) break;
  }
  shared_->intake = nullptr;
  while (shared_->pushing > 0) shared_->changed.Wait(shared_->mu);
}

absl::Status NatsConnection::Open(const std::string& server) {
  auto options = MakeNatsOptions(config_, server);
  if (!options.ok()) return options.status();
  // One reference for the callbacks of the connection. OnClosed is the last of them, and comes only
  // if the connection was made.
  auto* const closure = new SharedPtr(shared_);
  natsOptions_SetErrorHandler(options->get(), &OnError, closure);
  natsOptions_SetClosedCB(options->get(), &OnClosed, closure);
  {
    MutexLock lock(shared_->mu);
    ++shared_->open_callbacks;
  }
  if (const natsStatus status = natsConnection_Connect(&connection_, options->get());
      status != NATS_OK) {
    connection_ = nullptr;
    EndCallbacks(closure);
    return absl::UnavailableError(NatsErrorText(status));
  }
  for (const std::string& subject : config_.subjects) {
    if (absl::Status status = Subscribe(subject); !status.ok()) return status;
  }
  // Only then does the server know of them.
  if (const natsStatus status =
          natsConnection_FlushTimeout(connection_, kNatsConnectTimeout.count());
      status != NATS_OK) {
    return absl::UnavailableError(NatsErrorText(status));
  }
  return absl::OkStatus();
}

absl::Status NatsConnection::Subscribe(const std::string& subject) {
  auto* const closure = new SharedPtr(shared_);
  natsSubscription* handle = nullptr;
  natsStatus status =
      natsConnection_Subscribe(&handle, connection_, subject.c_str(), &OnMessage, closure);
  if (status != NATS_OK) {
    delete closure;
    return absl::UnavailableError(fmt::format("{}: {}", subject, NatsErrorText(status)));
  }
  {
    MutexLock lock(shared_->mu);
    ++shared_->open_callbacks;
  }
  subscriptions_.push_back({.handle = handle});
  status = natsSubscription_SetOnCompleteCB(handle, &OnComplete, closure);
  if (status != NATS_OK) {  // closed already: nobody says when its callbacks are over
    MutexLock lock(shared_->mu);
    --shared_->open_callbacks;  // the closure stays theirs
    return absl::UnavailableError(fmt::format("{}: {}", subject, NatsErrorText(status)));
  }
  status = natsSubscription_SetPendingLimits(handle, config_.max_pending_messages,
                                             config_.max_pending_bytes);
  if (status != NATS_OK) return absl::InternalError(NatsErrorText(status));
  return absl::OkStatus();
}

void NatsConnection::OnMessage(natsConnection*, natsSubscription*, natsMsg* message,
                               void* closure) {
  Shared& shared = **static_cast<SharedPtr*>(closure);
  PlaneIntake* intake = nullptr;
  {
    MutexLock lock(shared.mu);
    intake = shared.intake;
    shared.pushing += intake != nullptr ? 1 : 0;
  }
  if (intake != nullptr) {
    intake->Push(0,
                 {natsMsg_GetData(message), static_cast<size_t>(natsMsg_GetDataLength(message))});
    MutexLock lock(shared.mu);
    --shared.pushing;
    if (shared.intake == nullptr) shared.changed.NotifyAll();
  }
  natsMsg_Destroy(message);
}

void NatsConnection::OnError(natsConnection* connection, natsSubscription*, natsStatus status,
                             void* closure) {
  if (status == NATS_SLOW_CONSUMER) return;  // counted, see TellDrops
  Shared& shared = **static_cast<SharedPtr*>(closure);
  const char* text = nullptr;
  natsConnection_GetLastError(connection, &text);
  MutexLock lock(shared.mu);
  if (shared.failure.empty()) {
    shared.failure = text != nullptr && *text != '\0' ? text : natsStatus_GetText(status);
  }
  // Without one of its subscriptions the connection would look well and bring nothing.
  shared.ended = true;
  shared.changed.NotifyAll();
}

void NatsConnection::OnClosed(natsConnection* connection, void* closure) {
  Shared& shared = **static_cast<SharedPtr*>(closure);
  const char* text = nullptr;
  natsConnection_GetLastError(connection, &text);
  {
    MutexLock lock(shared.mu);
    if (shared.failure.empty() && text != nullptr) shared.failure = text;
    shared.ended = true;
  }
  EndCallbacks(closure);
}

void NatsConnection::OnComplete(void* closure) { EndCallbacks(closure); }

void NatsConnection::EndCallbacks(void* closure) {
  const std::unique_ptr<SharedPtr> shared(static_cast<SharedPtr*>(closure));
  MutexLock lock((*shared)->mu);
  --(*shared)->open_callbacks;
  (*shared)->changed.NotifyAll();
}

std::optional<std::string> NatsConnection::WaitForEnd(std::chrono::milliseconds timeout) {
  MutexLock lock(shared_->mu);
  if (!shared_->ended && !shared_->interrupted) shared_->changed.WaitFor(shared_->mu, timeout);
  if (!shared_->ended) return std::nullopt;
  return shared_->failure.empty() ? "connection closed" : shared_->failure;
}

void NatsConnection::Interrupt() {
  MutexLock lock(shared_->mu);
  shared_->interrupted = true;
  shared_->changed.NotifyAll();
}

void NatsConnection::TellDrops() {
  for (Subscription& subscription : subscriptions_) {
    int pending = 0;
    int64_t delivered = 0;
    int64_t dropped = 0;
    if (natsSubscription_GetStats(subscription.handle, &pending, nullptr, nullptr, nullptr,
                                  &delivered, &dropped) != NATS_OK) {
      continue;
    }
    if (dropped > subscription.dropped_seen) {
      subscription.dropped_untold += dropped - subscription.dropped_seen;
      subscription.dropped_seen = dropped;
      subscription.tell_at_delivered = delivered + pending;
    }
    if (subscription.dropped_untold == 0 || delivered < subscription.tell_at_delivered) continue;
    intake_->Dropped(static_cast<uint64_t>(std::exchange(subscription.dropped_untold, 0)));
  }
}

}  // namespace kvrouter
