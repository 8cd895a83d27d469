#include "adapters/metrics/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace kvrouter {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// Unix time of the boot, from "btime N" in /proc/stat.
double BootTimeSeconds() {
  std::ifstream stat("/proc/stat");
  for (std::string key; stat >> key;) {
    if (key == "btime") {
      double seconds = 0;
      stat >> seconds;
      return seconds;
    }
    stat.ignore(1 << 20, '\n');
  }
  return 0;
}

// Fields 20 (threads), 22 (start, ticks since boot), 23 (virtual bytes) and 24 (resident pages) of
// proc(5) stat. The second field is the name in parentheses, which may itself hold spaces and
// parentheses.
void ReadStat(ProcessFigures* figures) {
  std::ifstream file("/proc/self/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 20; ++field) fields >> skipped;
  uint64_t start_ticks = 0;
  uint64_t resident_pages = 0;
  fields >> figures->threads >> skipped >> start_ticks >> figures->virtual_bytes >> resident_pages;
  figures->resident_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  figures->start_time_seconds = BootTimeSeconds() + static_cast<double>(start_ticks) /
                                                        static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  ReadStat(&figures);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    figures.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_fds = limit.rlim_cur;
  std::error_code error;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", error), end; !error && fd != end;
       fd.increment(error)) {
    ++figures.open_fds;
  }
  if (figures.open_fds > 0) --figures.open_fds;  // the one that was counting
  return figures;
}

}  // namespace kvrouter
