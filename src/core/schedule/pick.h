#ifndef KVROUTER_CORE_SCHEDULE_PICK_H_
#define KVROUTER_CORE_SCHEDULE_PICK_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace kvrouter {

// Uniform numbers in [0, 1) with 53 random bits, reproducible from the seed. Thread-compatible.
class UniformSource {
 public:
  explicit UniformSource(uint64_t seed) : engine_(seed) {}
  double Next() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

struct Pick {
  size_t index = 0;
  uint32_t tie_size = 1;  // candidates that shared the lowest cost; 1 when sampled
  double draw = 0;        // the number drawn; 0 if none was
};

// The lowest cost; exactly equal lowest costs are drawn from uniformly (nothing else breaks a tie:
// not the worker id, not the load). Draws only when there is a tie. REQUIRES: costs not empty,
// finite.
Pick PickLowestCost(std::span<const double> costs, UniformSource& random);
// The same with `draw` as the number that would be drawn.
Pick PickLowestCost(std::span<const double> costs, double draw);

// A sample of the softmax over min-max normalised costs:
//
//   p_i ~ exp(-((cost_i - min) / (max - min)) / temperature)
//
// All equal: uniform. The draw u picks the first i with u <= p_0 + ... + p_i.
// Parity: Dynamo v1.4.1 softmax_sample. REQUIRES: costs not empty, finite; temperature > 0.
Pick PickBySoftmax(std::span<const double> costs, double temperature, UniformSource& random);
// The same with `draw` as the number that would be drawn.
Pick PickBySoftmax(std::span<const double> costs, double temperature, double draw);

// A number in [0, 1) that depends on `seed` alone, as good as drawn for seeds that follow each
// other.
double DrawOf(uint64_t seed);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_PICK_H_
