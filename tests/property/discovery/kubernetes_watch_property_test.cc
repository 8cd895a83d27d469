#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "adapters/discovery/json_stream.h"
#include "adapters/discovery/list_watch.h"
#include "adapters/discovery/pod_fleet.h"

namespace kvrouter {
namespace {

using nlohmann::json;

// The truth: pods and who is in the service, with a history of versions that is forgotten at times.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {}
  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Change() {
    const std::string name = fmt::format("p{}", Draw(4));
    auto& pod = pods_[name];
    if (Draw(3) == 0) {
      if (pod) Record("pods", "DELETED", *pod);
      pod.reset();
    } else if (Draw(3) == 0 || !pod) {
      const bool is_new = !pod || Draw(2) == 0;
      if (is_new && pod) Record("pods", "DELETED", *pod);
      if (is_new) uids_[name] = ++last_uid_;
      pod = {{"metadata",
              {{"name", name},
               {"uid", fmt::format("u{}", uids_[name])},
               {"annotations", {{"kvrouter.io/block-size", "16"}}}}},
             {"status",
              {{"podIP", fmt::format("10.0.0.{}", Draw(200))},
               {"phase", Draw(5) == 0 ? "Failed" : "Running"},
               {"conditions", {{{"type", "Ready"}, {"status", Draw(3) ? "True" : "False"}}}}}}};
      Record("pods", is_new ? "ADDED" : "MODIFIED", *pod);
    } else {
      ChangeSlice(fmt::format("s{}", Draw(2)));
    }
  }
  void Forget() { oldest_ = version_; }

  json List(const std::string& kind) const {
    json page = {{"metadata", {{"resourceVersion", std::to_string(version_)}}},
                 {"items", json::array()}};
    for (const auto& [name, object] : kind == "pods" ? pods_ : slices_) {
      if (object) page["items"].push_back(*object);
    }
    return page;
  }
  // What a watch from `version` delivers; absent: 410.
  std::optional<std::vector<json>> Since(const std::string& kind, uint64_t version) const {
    if (version < oldest_) return std::nullopt;
    std::vector<json> events;
    for (const auto& e : history_) {
      if (e.version > version && e.kind == kind)
        events.push_back({{"type", e.type}, {"object", e.object}});
    }
    return events;
  }
  json Bookmark() const {
    return {{"type", "BOOKMARK"},
            {"object", {{"metadata", {{"resourceVersion", std::to_string(version_)}}}}}};
  }

  // The workers by the rules of pod_fleet.h: "address, draining or not".
  std::set<std::string> Workers() const {
    std::set<std::string> out;
    for (const auto& [name, pod] : pods_) {
      if (!pod || (*pod)["status"]["phase"] == "Failed") continue;
      bool named = false;
      bool ready = false;
      for (const auto& [slice_name, slice] : slices_) {
        if (!slice) continue;
        for (const json& endpoint : (*slice)["endpoints"]) {
          if (endpoint["targetRef"]["uid"] != (*pod)["metadata"]["uid"]) continue;
          named = true;
          ready = ready || endpoint["conditions"]["ready"];
        }
      }
      const bool pod_ready = (*pod)["status"]["conditions"][0]["status"] == "True";
      if (named)
        out.insert(fmt::format("http://{}:8000 {}", (*pod)["status"]["podIP"].get<std::string>(),
                               !(ready && pod_ready)));
    }
    return out;
  }

 private:
  struct Entry {
    uint64_t version;
    std::string kind;
    std::string type;
    json object;
  };
  void ChangeSlice(const std::string& name) {
    json slice = {{"metadata", {{"name", name}}}, {"endpoints", json::array()}};
    for (const auto& [pod_name, pod] : pods_) {
      if (!pod || Draw(3) == 0) continue;
      slice["endpoints"].push_back(
          {{"conditions", {{"ready", Draw(2) == 0}}},
           {"targetRef",
            {{"kind", "Pod"}, {"name", pod_name}, {"uid", (*pod)["metadata"]["uid"]}}}});
    }
    const bool known = slices_[name].has_value();
    slices_[name] = slice;
    Record("slices", known ? "MODIFIED" : "ADDED", *slices_[name]);
  }
  void Record(const std::string& kind, const std::string& type, json& object) {
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    history_.push_back({version_, kind, type, object});
  }

  std::mt19937_64 random_;
  uint64_t version_ = 1;
  uint64_t oldest_ = 0;
  uint64_t last_uid_ = 0;
  std::map<std::string, uint64_t> uids_;
  std::map<std::string, std::optional<json>> pods_;
  std::map<std::string, std::optional<json>> slices_;
  std::vector<Entry> history_;
};

// One list-and-watch against the cluster, with the faults of a network.
class Reader {
 public:
  Reader(std::string kind, WatchedResource* resource)
      : kind_(std::move(kind)), list_watch_("/x", "", resource) {}

  // One question and a part of its answer, at most `events` of a watch.
  void Step(Cluster* cluster, size_t events) {
    if (list_watch_.NeedsList()) {
      if (cluster->Draw(5) == 0) return list_watch_.OnStatus(503);
      ASSERT_TRUE(list_watch_.OnListPage(cluster->List(kind_)).ok());
      return;
    }
    const std::string target = list_watch_.Target(1);
    const auto version = std::stoull(target.substr(target.find("resourceVersion=") + 16));
    const auto news = cluster->Since(kind_, version);
    if (!news) {
      if (cluster->Draw(2) == 0) return list_watch_.OnStatus(410);
      EXPECT_EQ(list_watch_.OnWatchEvent({{"type", "ERROR"}, {"object", {{"code", 410}}}}).verdict,
                ListWatch::Verdict::kExpired);
      return;
    }
    std::string text;
    for (size_t i = 0; i < std::min(events, news->size()); ++i) text += (*news)[i].dump() + "\n";
    if (events >= news->size() && cluster->Draw(3) == 0) text += cluster->Bookmark().dump();
    JsonStream stream(1 << 20);
    while (!text.empty()) {
      const size_t length = std::min<size_t>(text.size(), 1 + cluster->Draw(40));
      std::vector<std::string> whole;
      ASSERT_TRUE(stream.Feed(text.substr(0, length), &whole).ok());
      text.erase(0, length);
      for (const std::string& event : whole) {
        const auto verdict = list_watch_.OnWatchEvent(json::parse(event)).verdict;
        ASSERT_NE(verdict, ListWatch::Verdict::kMalformed);
      }
    }
  }

 private:
  const std::string kind_;
  ListWatch list_watch_;
};

std::set<std::string> SeenWorkers(const PodFleet& fleet) {
  std::set<std::string> out;
  for (const DeclaredWorker& worker : fleet.Workers().workers)
    out.insert(fmt::format("{} {}", worker.spec.address, worker.spec.draining));
  return out;
}

TEST(KubernetesWatchPropertyTest, EndsInTheTruthWhateverWasCutExpiredOrRefused) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Cluster cluster(seed);
    PodFleet fleet({}, true);
    Reader pods("pods", fleet.pods());
    Reader slices("slices", fleet.slices());
    for (int round = 0; round < 40; ++round) {
      for (uint64_t i = cluster.Draw(6); i > 0; --i) cluster.Change();
      if (cluster.Draw(6) == 0) cluster.Forget();
      Reader& one = cluster.Draw(2) == 0 ? pods : slices;
      one.Step(&cluster, cluster.Draw(4));
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int quiet = 0; quiet < 40; ++quiet) {  // enough of them for every refusal to be over
      pods.Step(&cluster, SIZE_MAX);
      slices.Step(&cluster, SIZE_MAX);
    }
    ASSERT_TRUE(fleet.IsComplete());
    ASSERT_EQ(SeenWorkers(fleet), cluster.Workers());
  }
}

}  // namespace
}  // namespace kvrouter
