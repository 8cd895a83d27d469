#ifndef KVROUTER_ADAPTERS_GRPC_DUMP_STREAM_H_
#define KVROUTER_ADAPTERS_GRPC_DUMP_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "adapters/grpc/call_slots.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// Each dump may hold some memory for as long as its reader pleases.
using DumpSlots = CallSlots<4>;

// One Router.Dump call: reads a step of the index, writes what it found, reads the next one when
// that write is done. So a reader that does not read holds a cursor, one message and a slot; no
// lock and no thread.
//
// One thing is outstanding at a time, a write, so the state needs no lock. A call that was
// cancelled fails its write. Deletes itself.
class DumpStream final : public grpc::ServerWriteReactor<v1::DumpResponse> {
 public:
  // With a cursor: a slot was taken, and is given back at the end. An error is the call's. `slots`
  // and `context` outlive the call.
  DumpStream(absl::StatusOr<std::unique_ptr<DumpCursor>> cursor, DumpSlots* slots,
             grpc::CallbackServerContext* context);

  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void WriteNext();

  DumpSlots* slots_;  // null: none taken
  grpc::CallbackServerContext* const context_;
  std::unique_ptr<DumpCursor> cursor_;  // null: all was read
  std::vector<KvEvent> events_;
  v1::DumpResponse outgoing_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_DUMP_STREAM_H_
