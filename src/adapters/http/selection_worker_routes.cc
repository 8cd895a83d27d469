#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "adapters/http/http_format.h"
#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "adapters/http/selection_headers.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::StatusOr<WorkerId> IdOfPath(const HttpRequest& request) {
  const std::string& text = request.path_parameters.front();
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc() && end == text.data() + text.size()) return WorkerId{id};
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("worker_id must be a whole number 0..2^64-1, got \"{}\"", text));
}

}  // namespace

SelectionApi::Answer SelectionApi::PostWorker(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.workers, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(SelectionWorker worker,
                       Counted(parts_.workers, ReadWorkerBody(request.body)));
  KVR_ASSIGN_OR_RETURN(worker, parts_.workers->Upsert(std::move(worker)));
  return JsonAnswer(201, WorkerJson(worker));
}

SelectionApi::Answer SelectionApi::GetWorkers(const HttpRequest& request) {
  const auto model_name = QueryParameter(request.query, "model_name");
  const auto routing_group = QueryParameter(request.query, "routing_group");
  std::vector<SelectionWorker> workers = parts_.workers->List();
  std::erase_if(workers, [&](const SelectionWorker& worker) {
    return (model_name && *model_name != worker.spec.model_name) ||
           (routing_group && *routing_group != worker.spec.routing_group);
  });
  std::vector<FeedReport> feeds;
  if (parts_.feeds != nullptr) feeds = parts_.feeds->Reports();
  std::vector<TargetLoad> loads;
  for (PartitionSnapshot& partition : parts_.router->Snapshot()) {
    loads.insert(loads.end(), partition.loads.begin(), partition.loads.end());
  }
  std::sort(loads.begin(), loads.end(),
            [](const TargetLoad& a, const TargetLoad& b) { return a.target < b.target; });
  return JsonAnswer(200, WorkersJson(workers, parts_.signs, feeds, loads, parts_.routing->Now()));
}

SelectionApi::Answer SelectionApi::PatchWorker(const HttpRequest& request) {
  KVR_ASSIGN_OR_RETURN(const WorkerId id, Counted(parts_.workers, IdOfPath(request)));
  KVR_RETURN_IF_ERROR(Counted(parts_.workers, CheckJsonContent(request)));
  WorkerSpec current;
  bool known = false;
  for (SelectionWorker& worker : parts_.workers->List()) {
    if (worker.spec.id != id) continue;
    current = std::move(worker.spec);
    known = true;
  }
  if (!known) current.id = id;
  KVR_ASSIGN_OR_RETURN(const SelectionWorkerPatch patch,
                       Counted(parts_.workers, ReadWorkerPatch(request.body, current)));
  KVR_ASSIGN_OR_RETURN(const SelectionWorker worker, parts_.workers->Update(id, patch));
  return JsonAnswer(200, WorkerJson(worker));
}

SelectionApi::Answer SelectionApi::DeleteWorker(const HttpRequest& request) {
  KVR_ASSIGN_OR_RETURN(const WorkerId id, IdOfPath(request));
  KVR_ASSIGN_OR_RETURN(const SelectionWorker worker, parts_.workers->Remove(id));
  return JsonAnswer(200, WorkerJson(worker));
}

}  // namespace kvrouter
