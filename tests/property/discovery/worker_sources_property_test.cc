#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "adapters/discovery/worker_sources.h"
#include "kvrouter/router.h"

namespace kvrouter {
namespace {

using Wishes = std::map<uint64_t, DeclaredWorker>;

// The rules of worker_sources.h, worker by worker, each from its own small state: no sets, no
// passes, no registry. `standing` says whose the record is.
class NaiveWorker {
 public:
  enum class Owner { kNobody, kSource, kCaller };

  // The strongest wish, after any change of it or of the record.
  void Settle(const std::optional<DeclaredWorker>& wish) {
    const bool wish_changed = wish != wish_;
    if (wish_changed) suppressed_ = false;
    wish_ = wish;
    if (!wish) {
      if (owner_ == Owner::kSource) Vanish();
      return;
    }
    if (owner_ == Owner::kCaller) {
      // Behind it, unless a caller has removed the wish's own record before.
    } else if (owner_ == Owner::kNobody && !suppressed_) {
      Write(*wish);
      ++lives_;
      drained_by_caller_ = false;
    } else if (owner_ == Owner::kSource && wish_changed) {
      if (life_ != wish->life) {
        ++lives_;
        drained_by_caller_ = false;
      }
      Write(*wish);
      record_->draining = record_->draining || drained_by_caller_;
    }
  }
  void CallerRegisters(const WorkerSpec& spec) {
    const bool was_draining = record_ && record_->draining;
    if (owner_ == Owner::kNobody) {
      owner_ = Owner::kCaller;
      ++lives_;
      drained_by_caller_ = false;
    }
    record_ = spec;
    record_->draining = spec.draining || was_draining;
    if (spec.draining) drained_by_caller_ = true;
  }
  void CallerRemoves() {
    if (owner_ == Owner::kSource) suppressed_ = true;
    if (owner_ != Owner::kNobody) Vanish();
  }
  void CallerSetsDraining(bool draining) {
    if (!record_) return;
    record_->draining = draining;
    drained_by_caller_ = draining;
  }

  const std::optional<WorkerSpec>& record() const { return record_; }
  uint64_t lives() const { return lives_; }

 private:
  void Write(const DeclaredWorker& wish) {
    owner_ = Owner::kSource;
    record_ = wish.spec;
    life_ = wish.life;
    suppressed_ = false;
  }
  void Vanish() {
    owner_ = Owner::kNobody;
    record_.reset();
    drained_by_caller_ = false;
  }

  Owner owner_ = Owner::kNobody;
  std::optional<WorkerSpec> record_;
  std::optional<DeclaredWorker> wish_;
  std::string life_;
  bool suppressed_ = false;  // a caller removed it
  bool drained_by_caller_ = false;
  uint64_t lives_ = 0;
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed), router_({}, nullptr), registry_(&router_) {}

  void Step() {
    switch (Draw(6)) {
      case 0:
      case 1:
        return ReplaceOne();
      case 2:
        return Register();
      case 3:
        (void)registry_.Remove(WorkerId{PickId()});
        return Each(id_, [](NaiveWorker& w) { w.CallerRemoves(); });
      case 4: {
        WorkerPatch patch;
        patch.draining = Draw(2) == 0;
        (void)registry_.Update(WorkerId{PickId()}, patch);
        return Each(id_, [&](NaiveWorker& w) { w.CallerSetsDraining(*patch.draining); });
      }
      default:
        sources_.Retry();
        for (auto& [id, worker] : model_) worker.Settle(StrongestWish(id));
    }
  }

  void Compare() const {
    for (uint64_t id = 1; id <= kIds; ++id) {
      std::optional<WorkerSpec> live = registry_.Find(WorkerId{id});
      const auto model = model_.find(id);
      std::optional<WorkerSpec> expected;
      if (model != model_.end()) expected = model->second.record();
      ASSERT_EQ(live.has_value(), expected.has_value()) << "worker " << id;
      if (!live) continue;
      live->incarnation = Incarnation{};
      ASSERT_EQ(live->address, expected->address) << "worker " << id;
      ASSERT_EQ(live->draining, expected->draining) << "worker " << id;
      ASSERT_EQ(*live, *expected) << "worker " << id;
    }
  }

  // Equal records of equal lives must not look like a new incarnation, and the other way round.
  void CompareLives() {
    for (auto& [id, worker] : model_) {
      const std::optional<WorkerSpec> live = registry_.Find(WorkerId{id});
      if (!live) continue;
      const auto [seen, is_new] =
          seen_lives_.try_emplace(id, Seen{worker.lives(), live->incarnation});
      if (is_new) continue;
      ASSERT_EQ(seen->second.lives == worker.lives(), seen->second.incarnation == live->incarnation)
          << "worker " << id;
      seen->second = {worker.lives(), live->incarnation};
    }
  }

 private:
  static constexpr uint64_t kIds = 5;
  struct Seen {
    uint64_t lives;
    Incarnation incarnation;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }
  uint64_t PickId() { return id_ = 1 + Draw(kIds); }

  WorkerSpec ASpec(uint64_t id) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.address = fmt::format("http://{}", Draw(2));
    spec.block_size_tokens = 16;
    spec.draining = Draw(4) == 0;
    return spec;
  }

  void ReplaceOne() {
    const size_t source = Draw(kWorkerSourceCount);
    Wishes& wishes = wishes_[source];
    wishes.clear();
    std::vector<DeclaredWorker> list;
    for (uint64_t id = 1; id <= kIds; ++id) {
      if (Draw(2) == 0) continue;
      wishes[id] = {.spec = ASpec(id), .life = fmt::format("life {}", Draw(2))};
      list.push_back(wishes[id]);
    }
    EXPECT_TRUE(sources_.Replace(static_cast<WorkerSource>(source), list).ok());
    for (uint64_t id = 1; id <= kIds; ++id) model_[id].Settle(StrongestWish(id));
  }

  void Register() {
    const WorkerSpec spec = ASpec(PickId());
    EXPECT_TRUE(registry_.Register(spec).ok());
    Each(id_, [&](NaiveWorker& w) { w.CallerRegisters(spec); });
  }

  template <typename Change>
  void Each(uint64_t id, Change change) {
    change(model_[id]);
  }

  std::optional<DeclaredWorker> StrongestWish(uint64_t id) const {
    for (const Wishes& wishes : wishes_) {
      if (const auto wish = wishes.find(id); wish != wishes.end()) return wish->second;
    }
    return std::nullopt;
  }

  std::mt19937_64 random_;
  Router router_;
  WorkerRegistry registry_;
  DiscoveryJournal journal_;
  WorkerSources sources_{&registry_, &journal_};
  std::array<Wishes, kWorkerSourceCount> wishes_;
  std::map<uint64_t, NaiveWorker> model_;
  std::map<uint64_t, Seen> seen_lives_;
  uint64_t id_ = 0;
};

TEST(WorkerSourcesPropertyTest, AgreesWithTheRulesWorkerByWorker) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    History history(seed);
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE(fmt::format("step={}", step));
      history.Step();
      history.Compare();
      history.CompareLives();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvrouter
