#ifndef KVROUTER_CTL_DOCTOR_FIGURES_H_
#define KVROUTER_CTL_DOCTOR_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/exposition.h"
#include "ctl/doctor/observations.h"

namespace kvrouter::ctl {

// Small readers and writers that all checks share. Pure.

// 0 if there is no such series: a figure that is not there counts nothing.
double Total(const std::vector<client::Sample>& samples, std::string_view name);
// Of the series with this label.
double TotalWith(const std::vector<client::Sample>& samples, std::string_view name,
                 const std::string& label, std::string_view value);
// "12", "0.35".
std::string Figure(double value);

// A name for "these ranks" in a sentence: the first few and how many more.
class Names {
 public:
  void Add(std::string name);
  void Add(const SeenWorker& worker);
  void Add(const SeenWorker& worker, uint32_t dp_rank);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  std::string Text() const;  // "7/0, 7/1 and 12 more"

 private:
  static constexpr size_t kShown = 6;
  std::string text_;
  size_t count_ = 0;
};

// Of the engine's cache_config_info; nothing if unknown to it.
std::optional<std::string> CacheConfig(const SeenEngine& engine, const std::string& attribute);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_FIGURES_H_
