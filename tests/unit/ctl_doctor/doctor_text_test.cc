#include "ctl/doctor/doctor_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ctl/doctor/diagnose.h"
#include "doctor_seen.h"

namespace kvrouter::ctl {
namespace {

using testing::HasSubstr;

TEST(DoctorTextTest, SaysWhatEvidenceAndHelp) {
  Observations seen = AHealthyFleet();
  Count(&seen, "kvrouter_orphan_blocks_total", 5);
  const std::string text = FindingsText(seen, Diagnose(seen));
  EXPECT_THAT(text, HasSubstr("WARNING orphan_blocks: "));
  EXPECT_THAT(text, HasSubstr("\n    kvrouter_orphan_blocks_total = 5  (should be: 0)\n    do: "));
  EXPECT_THAT(text, HasSubstr("2 workers, 2 of them reached\n"));
}

TEST(DoctorTextTest, SaysThatNothingIsWrongAndWhatWasLookedAt) {
  const Observations seen = AHealthyFleet();
  EXPECT_EQ(FindingsText(seen, {}),
            "nothing wrong\nlooked at 9 figures of the daemon, 2 workers, 2 of them reached\n");
}

TEST(DoctorTextTest, JsonHasTheSameAndTheExitCode) {
  Observations seen = AHealthyFleet();
  seen.workers[0].engine->health_status = 500;
  const auto json = nlohmann::json::parse(FindingsJson(seen, Diagnose(seen)));
  EXPECT_EQ(json["exit_code"], 2);
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["id"], "engine_unhealthy");
  EXPECT_EQ(json["findings"][0]["severity"], "critical");
  EXPECT_EQ(json["findings"][0]["evidence"][0]["limit"], "0");
  EXPECT_EQ(json["seen"]["workers"], 2);
}

}  // namespace
}  // namespace kvrouter::ctl
