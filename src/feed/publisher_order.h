#ifndef KVROUTER_FEED_PUBLISHER_ORDER_H_
#define KVROUTER_FEED_PUBLISHER_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace kvrouter {

// In which order the publishers of one rank began, each a life of its worker. Their ids are random:
// only what was heard tells.
//
// On one path a publisher that is heard first is the older one. Between paths that proves nothing:
// one may be slower than the other by more than a restart takes. There the later heard counts as
// the younger, until a path says otherwise:
//
//   path 0   A . . . C C             C was heard first, so B counted as younger. When C comes by
//   path 1   A . . . . . . B B C     path 1, too, and after B, it is known that B is the older one.
//
// Bounded: it forgets the oldest publishers, and does not note the order on more than kMaxPaths.
// Thread-compatible.
class PublisherOrder {
 public:
  static constexpr size_t kMaxPublishers = 9;
  static constexpr size_t kMaxPaths = 16;

  void Hear(uint32_t path, uint64_t publisher);
  // As far as is known. False of those that were never heard, or forgotten.
  bool IsOlder(uint64_t publisher, uint64_t than) const;
  bool Empty() const { return publishers_.empty(); }

 private:
  bool AnyPathShows(uint64_t older, uint64_t younger) const;

  std::vector<uint64_t> publishers_;                 // oldest first
  std::map<uint32_t, std::vector<uint64_t>> heard_;  // by path; in the order of their first events
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PUBLISHER_ORDER_H_
