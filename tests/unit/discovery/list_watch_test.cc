#include "adapters/discovery/list_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvrouter {
namespace {

using Verdict = ListWatch::Verdict;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// Writes down what it is told.
class Diary : public WatchedResource {
 public:
  void BeginList() override { lines.push_back("begin"); }
  absl::Status AddListed(const json& object) override { return Note("listed", object); }
  void CommitList() override { lines.push_back("commit"); }
  absl::Status Upsert(const json& object) override { return Note("put", object); }
  void Remove(const std::string& name) override { lines.push_back("removed " + name); }

  std::vector<std::string> Take() { return std::exchange(lines, {}); }
  std::vector<std::string> lines;

 private:
  absl::Status Note(const std::string& what, const json& object) {
    const std::string name = object["metadata"]["name"];
    if (name == "odd") return absl::InvalidArgumentError("odd");
    lines.push_back(what + " " + name);
    return absl::OkStatus();
  }
};

json Named(const std::string& name, int version) {
  return {{"metadata", {{"name", name}, {"resourceVersion", std::to_string(version)}}}};
}

json Page(int version, const std::string& next, const std::vector<std::string>& names) {
  json page = {{"metadata", {{"resourceVersion", std::to_string(version)}}},
               {"items", json::array()}};
  if (!next.empty()) page["metadata"]["continue"] = next;
  for (const std::string& name : names) page["items"].push_back(Named(name, 1));
  return page;
}

json Event(const std::string& type, const json& object) {
  return {{"type", type}, {"object", object}};
}

struct Fixture {
  Diary diary;
  ListWatch list_watch{"/pods", "a=b,c in (d)", &diary};

  void List(int version) {
    ASSERT_TRUE(list_watch.OnListPage(Page(version, "", {"x"})).ok());
    diary.Take();
  }
  std::string WatchedFrom() const {
    const std::string target = list_watch.Target(300);
    const size_t at = target.find("resourceVersion=");
    return at == std::string::npos ? "" : target.substr(at + 16, target.find('&', at) - at - 16);
  }
};

TEST(ListWatchTest, AsksForTheListThenWatchesFromItsVersion) {
  Fixture f;
  EXPECT_EQ(f.list_watch.Target(300), "/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=500");
  ASSERT_TRUE(f.list_watch.OnListPage(Page(7, "", {"x", "y"})).ok());
  EXPECT_THAT(f.diary.Take(), ElementsAre("begin", "listed x", "listed y", "commit"));
  EXPECT_EQ(f.list_watch.Target(300),
            "/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&watch=1&allowWatchBookmarks=true"
            "&resourceVersion=7&timeoutSeconds=300");
}

TEST(ListWatchTest, ListTakesEffectWithItsLastPage) {
  Fixture f;
  ASSERT_TRUE(f.list_watch.OnListPage(Page(7, "next/1", {"x"})).ok());
  EXPECT_TRUE(f.list_watch.NeedsList());
  EXPECT_THAT(f.list_watch.Target(1), testing::EndsWith("&continue=next%2F1"));
  EXPECT_THAT(f.diary.Take(), ElementsAre("begin", "listed x"));
  ASSERT_TRUE(f.list_watch.OnListPage(Page(7, "", {"y"})).ok());
  EXPECT_THAT(f.diary.Take(), ElementsAre("listed y", "commit"));
}

TEST(ListWatchTest, ExpiredPageBeginsTheListAgain) {
  Fixture f;
  ASSERT_TRUE(f.list_watch.OnListPage(Page(7, "next", {"x"})).ok());
  f.list_watch.OnStatus(503);
  EXPECT_THAT(f.list_watch.Target(1), testing::EndsWith("&continue=next")) << "only a bad moment";
  f.list_watch.OnStatus(410);
  EXPECT_THAT(f.list_watch.Target(1), testing::EndsWith("&limit=500"));
  f.diary.Take();
  ASSERT_TRUE(f.list_watch.OnListPage(Page(9, "", {"y"})).ok());
  EXPECT_THAT(f.diary.Take(), ElementsAre("begin", "listed y", "commit"));
}

TEST(ListWatchTest, PageThatIsNotUnderstoodCommitsNothing) {
  for (const char* text :
       {"", "[]", R"({"items":[]})", R"({"metadata":{"resourceVersion":"7"}})",
        R"({"metadata":{"resourceVersion":7},"items":[]})",
        R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"odd"}}]})"}) {
    Fixture f;
    EXPECT_FALSE(f.list_watch.OnListPage(json::parse(text, nullptr, false)).ok()) << text;
    EXPECT_TRUE(f.list_watch.NeedsList());
    EXPECT_THAT(f.diary.Take(), testing::Not(testing::Contains("commit")));
  }
}

TEST(ListWatchTest, WatchGoesOnFromWhatItWasToldLast) {
  Fixture f;
  f.List(7);
  EXPECT_EQ(f.list_watch.OnWatchEvent(Event("ADDED", Named("a", 8))).verdict, Verdict::kChanged);
  EXPECT_EQ(f.list_watch.OnWatchEvent(Event("MODIFIED", Named("a", 9))).verdict, Verdict::kChanged);
  EXPECT_EQ(f.list_watch.OnWatchEvent(Event("DELETED", Named("a", 10))).verdict, Verdict::kChanged);
  EXPECT_THAT(f.diary.Take(), ElementsAre("put a", "put a", "removed a"));
  EXPECT_EQ(f.WatchedFrom(), "10");
  EXPECT_EQ(f.list_watch.OnWatchEvent(Event("BOOKMARK", Named("", 20))).verdict, Verdict::kNothing);
  EXPECT_THAT(f.diary.Take(), IsEmpty());
  EXPECT_EQ(f.WatchedFrom(), "20");
}

TEST(ListWatchTest, ExpiredWatchListsAgain) {
  Fixture f;
  f.List(7);
  const auto answer =
      f.list_watch.OnWatchEvent(Event("ERROR", {{"code", 410}, {"message", "too old"}}));
  EXPECT_EQ(answer.verdict, Verdict::kExpired);
  EXPECT_TRUE(f.list_watch.NeedsList());
  EXPECT_THAT(f.diary.Take(), IsEmpty()) << "nothing leaves before the new list is whole";
}

TEST(ListWatchTest, WhatAWatchRefusesOrGarblesLeadsToAList) {
  const std::pair<json, Verdict> cases[] = {{Event("ERROR", {{"code", 500}}), Verdict::kRefused},
                                            {json::parse("{", nullptr, false), Verdict::kMalformed},
                                            {json::parse("[]"), Verdict::kMalformed},
                                            {{{"type", "ADDED"}}, Verdict::kMalformed},
                                            {Event("ADDED", json::object()), Verdict::kMalformed},
                                            {Event("REPLACED", Named("a", 8)), Verdict::kMalformed},
                                            {Event("ADDED", Named("odd", 8)), Verdict::kMalformed}};
  for (const auto& [event, verdict] : cases) {
    Fixture f;
    f.List(7);
    EXPECT_EQ(f.list_watch.OnWatchEvent(event).verdict, verdict) << event;
    EXPECT_TRUE(f.list_watch.NeedsList()) << event;
    EXPECT_THAT(f.diary.Take(), IsEmpty()) << event;
  }
}

}  // namespace
}  // namespace kvrouter
