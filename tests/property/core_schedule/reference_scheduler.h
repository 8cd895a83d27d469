#ifndef KVROUTER_TESTS_PROPERTY_CORE_SCHEDULE_REFERENCE_SCHEDULER_H_
#define KVROUTER_TESTS_PROPERTY_CORE_SCHEDULE_REFERENCE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// A scheduler written from Dynamo v1.4.1's specification (cost, pick, eligibility, active-sequence
// tracking), as slow and as plain as the text: every figure is worked out from the list of live
// requests when it is asked for. It includes nothing of the router and knows none of its types.
namespace reference {

struct Place {
  uint64_t worker = 0;
  uint32_t rank = 0;

  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Worker {
  uint64_t id = 0;
  uint32_t first_rank = 0;
  uint32_t ranks = 1;
  bool draining = false;
  bool available = true;
  bool overloaded = false;
  std::set<std::string> taints = {};
  bool serves_lora = true;
};

// A request that was booked and has not ended.
struct Live {
  Place place;
  std::vector<uint64_t> blocks;  // names of its prompt's full blocks; own names if not shared
  uint64_t prefill_tokens = 0;
  uint64_t output_blocks = 0;
  double weight = 1;  // of its output blocks, and of prompt blocks that nobody else there has
};

struct Weights {
  double credit = 1;
  double credit_decay = 0;
  double prefill_scale = 1;
  double request_weight = 0;
  double host_weight = 0.75;
  double disk_weight = 0.25;
  double shared_multiplier = 0;
  bool track_prefill = true;
  bool reuse = true;
};

struct Overlap {
  double device = 0;
  double host = 0;
  double disk = 0;
  double shared = 0;  // hits at or beyond the device prefix
};

struct Request {
  uint64_t isl_tokens = 0;
  uint64_t block_size = 1;
  std::vector<uint64_t> blocks;
  std::map<Place, Overlap> overlaps;
  bool decode_worker = false;
  Weights weights;
  std::optional<std::set<uint64_t>> allowed;
  std::set<uint64_t> excluded_workers;
  std::set<Place> excluded_places;
  std::optional<uint64_t> pinned_worker;
  std::optional<uint32_t> pinned_rank;
  bool wants_lora = false;
  std::set<std::string> required_taints;
  std::map<std::string, double> preferred_taints;
};

enum class Failure { kNone, kPinNotAllowed, kPinOverloaded, kNoEndpoints, kAllOverloaded };

struct Fleet {
  std::vector<Worker> workers;
  std::vector<Live> live;

  uint64_t ActivePrefillTokens(Place place) const;
  uint64_t ActiveRequests(Place place) const;
  double ActiveDecodeBlocks(Place place) const;
  uint64_t AdditionalBlocks(Place place, const Request& request) const;

  // Who may serve it, ascending; and if nobody, why.
  std::vector<Place> Eligible(const Request& request, Failure* failure) const;

  // The cost on each of the eligible places.
  std::map<Place, double> Costs(const Request& request, const std::vector<Place>& eligible) const;

  // What booking it there adds to the prefill load.
  static uint64_t PrefillTokens(const Request& request, Place place);
};

// The probability of each place at a temperature; at 0 uniform over those within `tolerance` of the
// lowest cost.
std::map<Place, double> Probabilities(const std::map<Place, double>& costs, double temperature,
                                      double tolerance);

}  // namespace reference

#endif  // KVROUTER_TESTS_PROPERTY_CORE_SCHEDULE_REFERENCE_SCHEDULER_H_
