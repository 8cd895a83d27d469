#include "service/request_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace kvrouter {
namespace {

using Result = RequestTable::ReserveResult;

RouteDecision ADecision(uint64_t booking) {
  RouteDecision decision;
  decision.booking = BookingId{booking};
  decision.address = "here";
  return decision;
}

TEST(RequestTableTest, SecondReserveSeesTheStateOfTheFirst) {
  RequestTable table;
  EXPECT_EQ(table.Reserve("a").result, Result::kReserved);
  EXPECT_EQ(table.Reserve("a").result, Result::kDeciding);
  ASSERT_TRUE(table.Confirm("a", ADecision(7), {}));
  const RequestTable::Reserved third = table.Reserve("a");
  EXPECT_EQ(third.result, Result::kBooked);
  EXPECT_EQ(third.booking, BookingId{7});
  EXPECT_EQ(table.BookedCount(), 1u);
}

TEST(RequestTableTest, WithdrawnIdCanBeReservedAgain) {
  RequestTable table;
  table.Reserve("a");
  table.Withdraw("a");
  EXPECT_EQ(table.Reserve("a").result, Result::kReserved);
  EXPECT_EQ(table.BookedCount(), 0u);
}

TEST(RequestTableTest, BookedRecordIsReleasedOnce) {
  RequestTable table;
  table.Reserve("a");
  ASSERT_TRUE(table.Confirm("a", ADecision(7), {}));
  EXPECT_EQ(table.Release("a").booking, BookingId{7});
  EXPECT_FALSE(table.Release("a").found);
  EXPECT_EQ(table.FindBooking("a"), kNoBooking);
  EXPECT_EQ(table.BookedCount(), 0u);
}

TEST(RequestTableTest, ReleaseBeforeTheDecisionIsReportedByConfirm) {
  RequestTable table;
  table.Reserve("a");
  EXPECT_TRUE(table.Release("a").found);
  EXPECT_FALSE(table.Release("a").found) << "a second Free of the same request";
  EXPECT_FALSE(table.Confirm("a", ADecision(7), {}));
  EXPECT_EQ(table.Reserve("a").result, Result::kReserved) << "the record is gone";
}

TEST(RequestTableTest, ReleaseOfAWaitingRecordNamesItsTicket) {
  RequestTable table;
  table.Reserve("a");
  EXPECT_TRUE(table.SetTicket("a", TicketId{3}));
  EXPECT_EQ(table.Release("a").ticket, TicketId{3});
  EXPECT_EQ(table.Reserve("a").result, Result::kDeciding) << "until its call withdraws it";
}

TEST(RequestTableTest, TicketAfterReleaseIsRefused) {
  RequestTable table;
  table.Reserve("a");
  table.Release("a");
  EXPECT_FALSE(table.SetTicket("a", TicketId{3}));
}

TEST(RequestTableTest, EraseLooksAtTheBooking) {
  RequestTable table;
  table.Reserve("a");
  ASSERT_TRUE(table.Confirm("a", ADecision(7), {}));
  EXPECT_FALSE(table.EraseBooking("a", BookingId{8}).found) << "a later booking under the same id";
  EXPECT_TRUE(table.EraseBooking("a", BookingId{7}).found);
  EXPECT_FALSE(table.EraseBooking("a", BookingId{7}).found);
}

TEST(RequestTableTest, SweepTakesOutTheDeadOnly) {
  RequestTable table;
  for (uint64_t i = 1; i <= 1000; ++i) {
    table.Reserve(std::to_string(i));
    ASSERT_TRUE(table.Confirm(std::to_string(i), ADecision(i), {}));
  }
  table.Reserve("deciding");
  const auto is_even = [](BookingId booking) { return static_cast<uint64_t>(booking) % 2 == 0; };
  std::vector<BookingId> left_over;
  EXPECT_EQ(table.Sweep(is_even, &left_over), 500u);
  EXPECT_EQ(table.Sweep(is_even, &left_over), 0u);
  EXPECT_TRUE(left_over.empty());
  EXPECT_EQ(table.BookedCount(), 500u);
  EXPECT_EQ(table.FindBooking("3"), kNoBooking);
  EXPECT_EQ(table.FindBooking("4"), BookingId{4});
  EXPECT_EQ(table.Reserve("deciding").result, Result::kDeciding);
}

TEST(RequestTableTest, OneOfManyThreadsGetsEachIdAndEachBookingIsTakenOnce) {
  constexpr int kThreads = 4;
  constexpr int kIds = 2000;
  RequestTable table;
  std::vector<std::vector<uint64_t>> taken(kThreads);
  std::vector<int> reserved(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kIds; ++i) {
          const std::string id = std::to_string(i);
          if (table.Reserve(id).result == Result::kReserved) {
            ++reserved[t];
            const auto booking = static_cast<uint64_t>(t * kIds + i + 1);
            if (!table.Confirm(id, ADecision(booking), {})) taken[t].push_back(booking);
          }
          const RequestTable::Released released = table.Release(id);
          if (released.booking != kNoBooking) {
            taken[t].push_back(static_cast<uint64_t>(released.booking));
          }
        }
      });
    }
  }
  std::set<uint64_t> distinct;
  size_t total = 0;
  int reservations = 0;
  for (int t = 0; t < kThreads; ++t) {
    distinct.insert(taken[t].begin(), taken[t].end());
    total += taken[t].size();
    reservations += reserved[t];
  }
  EXPECT_EQ(distinct.size(), total) << "a booking was given back twice";
  EXPECT_EQ(total, static_cast<size_t>(reservations)) << "a booking was lost";
  EXPECT_EQ(table.BookedCount(), 0u);
}

}  // namespace
}  // namespace kvrouter
