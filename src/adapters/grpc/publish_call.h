#ifndef KVROUTER_ADAPTERS_GRPC_PUBLISH_CALL_H_
#define KVROUTER_ADAPTERS_GRPC_PUBLISH_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/status.h"
#include "adapters/grpc/call_slots.h"
#include "base/mutex.h"
#include "kvrouter/v1/kv_events.pb.h"
#include "service/published_feeds.h"

namespace kvrouter {

// Of all Publish calls, those that have not said who they are included.
using PublishSlots = CallSlots<8192>;

// One KvEvents.Publish call.
//
//   read one message ─> hand it to the feed, which applies it ─> read the next
//   nothing being written, and the feed has news ─> write where it stands now
//
// So neither side has a queue: events wait in the caller (flow control), news replace each other.
//
// At most one read and one write are outstanding. The state decides under the mutex what to do
// next; gRPC is called after it is released, since reactions may run inside such a call. The feed
// wakes the call by Proceed. Owns itself until OnDone; a waker holds it longer.
class PublishCall final : public grpc::ServerBidiReactor<v1::PublishRequest, v1::PublishResponse>,
                          public std::enable_shared_from_this<PublishCall> {
 public:
  struct Env {  // all outlive the call
    PublishedFeeds* feeds = nullptr;
    PublishSlots* slots = nullptr;
  };

  // A running call.
  static PublishCall* Start(const Env& env, grpc::CallbackServerContext* context);

  PublishCall(const Env& env, grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Whatever can be done now.
  void Proceed();

 private:
  // What to do next, and the state as if it were done already.
  struct Step {
    bool write = false;
    bool read = false;
    bool finish = false;
    absl::Status error;
  };
  Step Decide();

  // Errors end the call.
  absl::Status Handle(const v1::PublishRequest& message);
  absl::Status Open(const v1::PublishStart& message);
  // Into outgoing_; false if there are none.
  bool TakeNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Env env_;
  grpc::CallbackServerContext* const context_;
  const bool has_slot_;
  std::shared_ptr<PublishCall> self_;  // until OnDone

  // Each belongs to the one read, or the one write, that is outstanding.
  v1::PublishRequest incoming_;
  v1::PublishResponse outgoing_;

  Mutex mu_;                                                    // before the feed's
  std::shared_ptr<PublishStream> stream_ ABSL_GUARDED_BY(mu_);  // once started
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  // Reads and writes decided on whose Start… has not returned yet: they must not meet Finish.
  int starting_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;  // nothing more to read
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_PUBLISH_CALL_H_
