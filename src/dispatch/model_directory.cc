#include "dispatch/model_directory.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Unknown(const ModelDirectory::Wanted& wanted) {
  const std::string group =
      wanted.group.empty() ? "" : fmt::format(" in routing group \"{}\"", wanted.group);
  const std::string message =
      wanted.model.empty() ? fmt::format("model is required: none or several are served{}", group)
                           : fmt::format("model \"{}\" is not served{}", wanted.model, group);
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition, message);
}

// Among groups, or what is by group.
template <typename Groups, typename NameOf>
const typename Groups::value_type* PickGroup(const Groups& groups,
                                             const ModelDirectory::Wanted& wanted, NameOf name_of) {
  const std::string_view first_choice =
      wanted.group.empty() ? wanted.preferred_group : wanted.group;
  for (const auto& group : groups) {
    if (name_of(group) == first_choice) return &group;
  }
  if (!wanted.group.empty() || groups.empty()) return nullptr;
  return &*groups.begin();
}

}  // namespace

absl::StatusOr<ServedModel> ModelDirectory::Resolve(const Wanted& wanted) const {
  const std::shared_ptr<const Book> book = Current();
  if (wanted.model.empty()) {
    if (book->models.size() != 1) return Unknown(wanted);
    const auto* group = PickGroup(book->models.begin()->second, wanted,
                                  [](const auto& g) -> const std::string& { return g.first; });
    if (group == nullptr) return Unknown(wanted);
    return ServedModel{.partition = group->second, .lora_name = ""};
  }
  if (const auto model = book->models.find(wanted.model); model != book->models.end()) {
    const auto* group = PickGroup(model->second, wanted,
                                  [](const auto& g) -> const std::string& { return g.first; });
    if (group == nullptr) return Unknown(wanted);
    return ServedModel{.partition = group->second, .lora_name = ""};
  }
  const auto adapter = book->adapters.find(wanted.model);
  if (adapter == book->adapters.end()) return Unknown(wanted);
  const auto* where =
      PickGroup(adapter->second, wanted,
                [](const Adapter& a) -> const std::string& { return a.routing_group; });
  if (where == nullptr) return Unknown(wanted);
  return ServedModel{
      .partition = book->models.find(where->model_name)->second.find(where->routing_group)->second,
      .lora_name = std::string(wanted.model)};
}

std::optional<KnownEngine> ModelDirectory::Find(WorkerId id) const {
  const std::shared_ptr<const Book> book = Current();
  const auto engine = book->engines.find(id);
  if (engine == book->engines.end()) return std::nullopt;
  return engine->second;
}

std::vector<std::shared_ptr<const KnownPartition>> ModelDirectory::Partitions() const {
  const std::shared_ptr<const Book> book = Current();
  std::vector<std::shared_ptr<const KnownPartition>> partitions;
  for (const auto& [name, groups] : book->models) {
    for (const auto& [group, partition] : groups) partitions.push_back(partition);
  }
  return partitions;
}

std::shared_ptr<const ModelDirectory::Book> ModelDirectory::Current() const {
  const uint64_t version = workers_->Version();
  {
    MutexLock lock(mu_);
    if (book_ && version_ >= version) return book_;
  }
  // Two threads may read it at one time; the later version stays.
  std::shared_ptr<const Book> book = Read(*workers_);
  MutexLock lock(mu_);
  if (!book_ || version > version_) {
    book_ = book;
    version_ = version;
  }
  return book;
}

std::shared_ptr<const ModelDirectory::Book> ModelDirectory::Read(const WorkerRegistry& workers) {
  auto book = std::make_shared<Book>();
  for (const WorkerSpec& spec : workers.List()) {
    if (spec.address.empty()) continue;  // known for its blocks alone
    KnownEngine engine{.id = spec.id,
                       .incarnation = spec.incarnation,
                       .address = spec.address,
                       .role = spec.role,
                       .draining = spec.draining,
                       .dp_size = spec.dp_size};
    std::shared_ptr<KnownPartition>& partition = book->models[spec.model_name][spec.routing_group];
    if (!partition) {
      partition = std::make_shared<KnownPartition>();
      partition->model_name = spec.model_name;
      partition->routing_group = spec.routing_group;
    }
    if (spec.lora_adapters) {
      for (const std::string& name : *spec.lora_adapters) {
        std::vector<Adapter>& places = book->adapters[name];
        if (places.empty() || places.back().model_name != spec.model_name ||
            places.back().routing_group != spec.routing_group)
          places.push_back({spec.model_name, spec.routing_group});
      }
    }
    if (!spec.draining) {
      partition->has_prefill = partition->has_prefill || spec.role == WorkerRole::kPrefill;
      partition->engines.push_back(engine);
    }
    book->engines.emplace(spec.id, std::move(engine));
  }
  return book;
}

}  // namespace kvrouter
