#include "ctl/bench/prompt_maker.h"

#include <random>

#include "base/check.h"

namespace kvrouter::ctl {
namespace {

// A generator of its own for each purpose and number.
std::mt19937_64 Random(uint64_t seed, uint64_t purpose, uint64_t n) {
  std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(purpose), static_cast<uint32_t>(n),
                      static_cast<uint32_t>(n >> 32)};
  return std::mt19937_64(mixed);
}

constexpr uint64_t kPrefix = 1;
constexpr uint64_t kPrompt = 2;

}  // namespace

PromptMaker::PromptMaker(const BenchOptions& options, uint32_t block_size_tokens)
    : options_(options),
      prompt_tokens_(PromptTokens(options)),
      items_(options.hashes ? prompt_tokens_ / block_size_tokens : prompt_tokens_),
      shared_items_(static_cast<uint64_t>(options.shared_fraction * static_cast<double>(items_))) {
  KVR_CHECK(!options.hashes || block_size_tokens > 0, "hashes need a block size");
  if (shared_items_ == 0) return;
  for (uint32_t i = 0; i < options.shared_prefixes; ++i) {
    std::mt19937_64 random = Random(options.seed, kPrefix, i);
    std::vector<uint64_t>& prefix = prefixes_.emplace_back(shared_items_);
    for (uint64_t& item : prefix) item = random();
  }
}

v1::RouteRequest PromptMaker::Make(uint64_t n) const {
  v1::RouteRequest request;
  request.set_model_name(options_.model_name);
  request.set_routing_group(options_.routing_group);
  request.set_advise_only(options_.advise);
  std::mt19937_64 random = Random(options_.seed, kPrompt, n);
  const std::vector<uint64_t>* const prefix =
      prefixes_.empty() ? nullptr : &prefixes_[random() % prefixes_.size()];
  const auto item = [&](uint64_t i) { return i < shared_items_ ? (*prefix)[i] : random(); };
  if (options_.hashes) {
    auto* hashes = request.mutable_hashes()->mutable_local_block_hashes();
    hashes->Reserve(static_cast<int>(items_));
    for (uint64_t i = 0; i < items_; ++i) hashes->Add(item(i));
    request.mutable_hashes()->set_isl_tokens(prompt_tokens_);
  } else {
    auto* ids = request.mutable_token_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(items_));
    for (uint64_t i = 0; i < items_; ++i) ids->Add(static_cast<uint32_t>(item(i)));
  }
  return request;
}

}  // namespace kvrouter::ctl
