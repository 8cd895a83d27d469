#include "reference_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reference {
namespace {

Overlap OverlapOn(const Request& request, Place place) {
  const auto it = request.overlaps.find(place);
  return it == request.overlaps.end() ? Overlap{} : it->second;
}

double EffectiveOverlapBlocks(const Request& request, Place place) {
  const Overlap overlap = OverlapOn(request, place);
  return overlap.device + request.weights.host_weight * overlap.host +
         request.weights.disk_weight * overlap.disk;
}

double CachedTokens(const Request& request, Place place) {
  return std::round(EffectiveOverlapBlocks(request, place) *
                    static_cast<double>(request.block_size));
}

}  // namespace

uint64_t Fleet::ActivePrefillTokens(Place place) const {
  uint64_t tokens = 0;
  for (const Live& request : live) {
    if (request.place == place) tokens += request.prefill_tokens;
  }
  return tokens;
}

uint64_t Fleet::ActiveRequests(Place place) const {
  uint64_t requests = 0;
  for (const Live& request : live) requests += request.place == place ? 1 : 0;
  return requests;
}

double Fleet::ActiveDecodeBlocks(Place place) const {
  std::map<uint64_t, std::vector<const Live*>> owners;
  double blocks = 0;
  for (const Live& request : live) {
    if (request.place != place) continue;
    for (const uint64_t block : request.blocks) owners[block].push_back(&request);
    blocks += request.weight * static_cast<double>(request.output_blocks);
  }
  for (const auto& [block, those] : owners) blocks += those.size() == 1 ? those[0]->weight : 1;
  return std::floor(blocks + 0.5);
}

uint64_t Fleet::AdditionalBlocks(Place place, const Request& request) const {
  if (!request.weights.reuse) return request.blocks.size();
  std::set<uint64_t> there;
  for (const Live& other : live) {
    if (other.place == place) there.insert(other.blocks.begin(), other.blocks.end());
  }
  uint64_t prefix = 0;
  while (prefix < request.blocks.size() && there.contains(request.blocks[prefix])) ++prefix;
  return request.blocks.size() - prefix;
}

std::vector<Place> Fleet::Eligible(const Request& request, Failure* failure) const {
  *failure = Failure::kNone;
  if (request.pinned_worker && request.allowed &&
      !request.allowed->contains(*request.pinned_worker)) {
    *failure = Failure::kPinNotAllowed;
    return {};
  }
  std::vector<Place> eligible;
  bool only_overload = false;
  for (const Worker& worker : workers) {
    for (uint32_t rank = worker.first_rank; rank < worker.first_rank + worker.ranks; ++rank) {
      const Place place{.worker = worker.id, .rank = rank};
      if (request.pinned_worker && *request.pinned_worker != worker.id) continue;
      if (request.pinned_worker && request.pinned_rank && *request.pinned_rank != rank) continue;
      if (request.allowed && !request.allowed->contains(worker.id)) continue;
      if (request.excluded_workers.contains(worker.id)) continue;
      if (request.excluded_places.contains(place)) continue;
      if (worker.draining || !worker.available) continue;
      if (request.wants_lora && !worker.serves_lora) continue;
      if (!std::includes(worker.taints.begin(), worker.taints.end(),
                         request.required_taints.begin(), request.required_taints.end())) {
        continue;
      }
      if (worker.overloaded) {
        only_overload = true;
        continue;
      }
      eligible.push_back(place);
    }
  }
  std::sort(eligible.begin(), eligible.end());
  if (eligible.empty()) {
    *failure = !only_overload          ? Failure::kNoEndpoints
               : request.pinned_worker ? Failure::kPinOverloaded
                                       : Failure::kAllOverloaded;
  }
  return eligible;
}

std::map<Place, double> Fleet::Costs(const Request& request,
                                     const std::vector<Place>& eligible) const {
  const Weights& k = request.weights;
  const double B = static_cast<double>(request.block_size);
  const double isl = static_cast<double>(request.isl_tokens);
  const double request_blocks = std::ceil(isl / B);
  double least_prefill = std::numeric_limits<double>::infinity();
  for (const Place place : eligible) {
    least_prefill = std::min(least_prefill, static_cast<double>(ActivePrefillTokens(place)));
  }
  std::map<Place, double> costs;
  for (const Place place : eligible) {
    const Overlap overlap = OverlapOn(request, place);
    const double active_prefill = static_cast<double>(ActivePrefillTokens(place));
    const double cached = CachedTokens(request, place);
    const double uncached = isl - std::min(cached, isl);
    const double raw_prefill_tokens = k.track_prefill ? active_prefill + uncached + cached : 0;
    const double raw_prefill_blocks = raw_prefill_tokens / B;
    double decay = 1;
    if (k.track_prefill && k.credit_decay > 0) {
      const double excess_blocks = (active_prefill - least_prefill) / B;
      decay = 1 / (1 + k.credit_decay * excess_blocks / request_blocks);
    }
    const double credit = k.credit * decay * overlap.device + k.host_weight * overlap.host +
                          k.disk_weight * overlap.disk + k.shared_multiplier * overlap.shared;
    const double decode =
        ActiveDecodeBlocks(place) + static_cast<double>(AdditionalBlocks(place, request));
    const double requests = k.request_weight * static_cast<double>(ActiveRequests(place));
    double logit = 0;
    if (request.decode_worker && !k.track_prefill && k.credit > 0) {
      logit = std::max(0.0, decode - credit) + requests;
    } else {
      logit = k.prefill_scale * std::max(0.0, raw_prefill_blocks - credit) + decode + requests;
    }
    double taints = 0;
    for (const Worker& worker : workers) {
      if (worker.id != place.worker) continue;
      for (const auto& [taint, weight] : request.preferred_taints) {
        if (worker.taints.contains(taint)) taints += weight;
      }
    }
    costs[place] = request.pinned_worker ? logit : logit * std::exp(-std::tanh(taints));
  }
  return costs;
}

uint64_t Fleet::PrefillTokens(const Request& request, Place place) {
  if (!request.weights.track_prefill) return 0;
  const auto cached = static_cast<uint64_t>(CachedTokens(request, place));
  return request.isl_tokens - std::min(cached, request.isl_tokens);
}

std::map<Place, double> Probabilities(const std::map<Place, double>& costs, double temperature,
                                      double tolerance) {
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  for (const auto& [place, cost] : costs) {
    min = std::min(min, cost);
    max = std::max(max, cost);
  }
  std::map<Place, double> p;
  double total = 0;
  for (const auto& [place, cost] : costs) {
    if (temperature == 0) {
      p[place] = cost <= min + tolerance ? 1 : 0;
    } else {
      p[place] = max > min ? std::exp(-(cost - min) / ((max - min) * temperature)) : 1;
    }
    total += p[place];
  }
  for (auto& [place, probability] : p) probability /= total;
  return p;
}

}  // namespace reference
