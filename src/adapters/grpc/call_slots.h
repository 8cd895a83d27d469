#ifndef KVROUTER_ADAPTERS_GRPC_CALL_SLOTS_H_
#define KVROUTER_ADAPTERS_GRPC_CALL_SLOTS_H_

#include <atomic>

namespace kvrouter {

// How many calls of one kind may be open at once. Thread-safe.
template <int kCount>
class CallSlots {
 public:
  static constexpr int kSlots = kCount;

  // False: none is free.
  bool Take() {
    if (taken_.fetch_add(1) < kSlots) return true;
    taken_.fetch_sub(1);
    return false;
  }
  void GiveBack() { taken_.fetch_sub(1); }

 private:
  std::atomic<int> taken_{0};
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_CALL_SLOTS_H_
