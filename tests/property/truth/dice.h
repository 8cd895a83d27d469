#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_DICE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_DICE_H_

#include <cstdint>

#include "kvrouter/types.h"

namespace kvrouter::truth {

// Splitmix64: neighbouring seeds give unrelated numbers.
inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline uint64_t Mix(uint64_t a, uint64_t b) { return Mix(Mix(a) ^ b); }

// Seeded randomness, equal on every platform. Each part of a run rolls its own, so that taking a
// fault out of a plan changes as little else as possible.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(Mix(seed)) {}

  uint64_t Roll() { return state_ = Mix(state_); }
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(Roll() % n); }
  bool Chance(double p) { return static_cast<double>(Roll() >> 11) * 0x1p-53 < p; }
  MonotonicTime Between(MonotonicTime low, MonotonicTime high) {
    return low + MonotonicTime(static_cast<int64_t>(
                     Roll() % static_cast<uint64_t>((high - low).count() + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_DICE_H_
