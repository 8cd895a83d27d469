#ifndef KVROUTER_TESTS_SUPPORT_DICE_H_
#define KVROUTER_TESTS_SUPPORT_DICE_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace kvrouter {

// Seeded choices.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint32_t Below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(engine_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine_) < p; }
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    std::shuffle(items->begin(), items->end(), engine_);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_DICE_H_
