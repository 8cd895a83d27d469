#include "sim/player/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace kvrouter::sim {
namespace {

constexpr size_t kBarCells = 24;

std::string Figures(const PlayProgress& progress) {
  return fmt::format("{}/{} requests, {} in flight, predicted hit {:.3f}, {:.0f} s{}",
                     progress.sent, progress.total, progress.in_flight, progress.hit_so_far,
                     progress.elapsed_s,
                     progress.failed > 0 ? fmt::format(", {} failed", progress.failed) : "");
}

}  // namespace

ProgressLine::ProgressLine(std::FILE* out, std::string title)
    : out_(out), title_(std::move(title)), on_terminal_(::isatty(::fileno(out)) != 0) {}

void ProgressLine::Show(const PlayProgress& progress) {
  if (progress.total == 0) return;
  if (on_terminal_) {
    const size_t filled = kBarCells * progress.sent / progress.total;
    fmt::print(out_, "\r\x1b[K{} [{:=<{}}{: <{}}] {}", title_, "", filled, "", kBarCells - filled,
               Figures(progress));
    std::fflush(out_);
    return;
  }
  const size_t tenths = 10 * progress.sent / progress.total;
  if (tenths <= tenths_shown_) return;
  tenths_shown_ = tenths;
  fmt::print(out_, "{} {:>3} % {}\n", title_, 10 * tenths, Figures(progress));
  std::fflush(out_);
}

void ProgressLine::Finish() {
  if (on_terminal_) fmt::print(out_, "\n");
}

}  // namespace kvrouter::sim
