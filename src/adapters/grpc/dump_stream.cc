#include "adapters/grpc/dump_stream.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/grpc/event_convert.h"
#include "adapters/grpc/status_convert.h"
#include "kvrouter/error.h"

namespace kvrouter {

DumpStream::DumpStream(absl::StatusOr<std::unique_ptr<DumpCursor>> cursor, DumpSlots* slots,
                       grpc::CallbackServerContext* context)
    : slots_(cursor.ok() ? slots : nullptr), context_(context) {
  if (!cursor.ok()) {
    Finish(ToGrpcStatus(cursor.status(), context_));
    return;
  }
  cursor_ = *std::move(cursor);
  WriteNext();
}

void DumpStream::WriteNext() {
  if (context_->IsCancelled()) return Finish(grpc::Status::CANCELLED);
  outgoing_.Clear();
  events_.clear();
  // Steps that find nothing are short: at most a few for each target, and some per 10^4 blocks.
  while (events_.empty() && cursor_->Next(&events_)) {
  }
  for (const KvEvent& event : events_) {
    ToProto(event, cursor_->BlockSizeTokens(), outgoing_.add_events());
  }
  if (cursor_->Counts().complete) {
    ToProto(cursor_->Counts(), outgoing_.mutable_counts());
    cursor_.reset();
  }
  StartWrite(&outgoing_);
}

void DumpStream::OnWriteDone(bool ok) {
  if (!ok) return Finish(grpc::Status::CANCELLED);
  if (cursor_ == nullptr) return Finish(grpc::Status::OK);
  WriteNext();
}

void DumpStream::OnDone() {
  if (slots_ != nullptr) slots_->GiveBack();
  delete this;
}

}  // namespace kvrouter
