// B36 of the field: error paths that never release, releases that come twice or for ids nobody
// knows, and decode load that climbs until the router avoids its best workers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "service_fixture.h"
#include "support/sanitized.h"

namespace kvrouter {
namespace {

constexpr int kRounds = kSanitized ? 50'000 : 1'000'000;

double ResidentMib() {
  long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576.0;
}

// One request's life gone wrong in the way its number says. Whatever happened, its load must be
// gone afterwards.
void OneRound(Fleet& fleet, int round, uint64_t* booked) {
  const std::string id = "request-" + std::to_string(round);
  RouteRequest request = fleet.ARequest(id);
  switch (round % 5) {
    case 0:  // the prefill never completed
      ASSERT_TRUE(fleet.service.Route(request).ok());
      ASSERT_EQ(fleet.service.Free(id), LifecycleResult::kDone);
      break;
    case 1:  // everything is said twice
      ASSERT_TRUE(fleet.service.Route(request).ok());
      ASSERT_EQ(fleet.service.PrefillComplete(id), LifecycleResult::kDone);
      ASSERT_EQ(fleet.service.PrefillComplete(id), LifecycleResult::kDone);
      ASSERT_EQ(fleet.service.Free(id), LifecycleResult::kDone);
      ASSERT_EQ(fleet.service.Free(id), LifecycleResult::kUnknownRequest);
      break;
    case 2:  // never routed
      ASSERT_EQ(fleet.service.PrefillComplete(id), LifecycleResult::kUnknownRequest);
      ASSERT_EQ(fleet.service.Free(id), LifecycleResult::kUnknownRequest);
      return;
    case 3:  // the first attempt found nobody
      request.allowed_workers = std::vector<WorkerId>();
      ASSERT_FALSE(fleet.service.Route(request).ok());
      request.allowed_workers.reset();
      ASSERT_TRUE(fleet.service.Route(request).ok());
      ASSERT_EQ(fleet.service.OutputBlock(id, std::nullopt), LifecycleResult::kDone);
      ASSERT_EQ(fleet.service.Free(id), LifecycleResult::kDone);
      break;
    default:  // the caller vanished: only expiry is left
      ASSERT_TRUE(fleet.service.Route(request).ok());
      break;
  }
  ++*booked;
}

TEST(B36Test, ErrorPathsAndDoubleFreesLeaveNoLoadInAMillionRounds) {
  RouterConfig config;
  config.scheduler.track_output_blocks = true;
  Fleet fleet(4, config);
  fleet.tokens.resize(48);
  constexpr int kWarmUp = kRounds / 10;
  double warm_mib = 0;
  uint64_t booked = 0;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(OneRound(fleet, round, &booked)) << "round " << round;
    if (round % 10'000 == 9'999) {
      fleet.clock.Advance(std::chrono::seconds(301));
      fleet.service.Tick();
      ASSERT_EQ(fleet.service.LiveRequests(), 0u) << "round " << round;
    }
    if (round == kWarmUp) warm_mib = ResidentMib();
  }
  const double grown_mib = ResidentMib() - warm_mib;
  fleet.ExpectNoLoad();
  const ServiceCounters counters = fleet.service.Counters();
  EXPECT_EQ(counters.requests_started, booked);
  EXPECT_EQ(counters.requests_finished, booked);
  EXPECT_EQ(counters.bookings_expired, static_cast<uint64_t>(kRounds) / 5);
  EXPECT_EQ(counters.unknown_frees, static_cast<uint64_t>(kRounds) / 5 * 2);
  if (!kSanitized) {
    EXPECT_LT(grown_mib, 20.0) << "after the warm-up the process had " << warm_mib << " MiB";
  }
}

}  // namespace
}  // namespace kvrouter
