#ifndef KVROUTER_TESTS_BENCH_GRPC_BENCH_PROMPTS_H_
#define KVROUTER_TESTS_BENCH_GRPC_BENCH_PROMPTS_H_

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "kvrouter/block_hash.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter::bench {

inline constexpr uint32_t kBlockTokens = 16;

// The two sizes that gateways send: a long prompt as hashes, or as tokens.
enum class Form { kHashes2Kb, kTokens56Kb };
inline constexpr Form kForms[] = {Form::kHashes2Kb, Form::kTokens56Kb};

inline std::vector<TokenId> TokensOf(Form form) {
  std::vector<TokenId> tokens(form == Form::kHashes2Kb ? 2048 : 14'000);
  std::iota(tokens.begin(), tokens.end(), form == Form::kHashes2Kb ? 1 : 100'000);
  return tokens;
}

inline std::vector<LocalBlockHash> LocalHashesOf(Form form) {
  std::vector<LocalBlockHash> local;
  AppendLocalBlockHashes(TokensOf(form), kBlockTokens, BlockSeed({}), &local);
  return local;
}

// 128 local and 128 sequence hashes, 2 KiB; or 14,000 tokens, 56 KB. Without a request id.
inline v1::RouteRequest RequestOf(Form form) {
  v1::RouteRequest request;
  const std::vector<TokenId> tokens = TokensOf(form);
  if (form == Form::kTokens56Kb) {
    request.mutable_token_ids()->mutable_ids()->Add(tokens.begin(), tokens.end());
    return request;
  }
  const std::vector<LocalBlockHash> local = LocalHashesOf(form);
  std::vector<SequenceHash> sequence;
  AppendSequenceHashes(local, &sequence);
  v1::PromptHashes* hashes = request.mutable_hashes();
  for (const LocalBlockHash hash : local) {
    hashes->add_local_block_hashes(static_cast<uint64_t>(hash));
  }
  for (const SequenceHash hash : sequence) {
    hashes->add_sequence_hashes(static_cast<uint64_t>(hash));
  }
  hashes->set_isl_tokens(tokens.size());
  return request;
}

}  // namespace kvrouter::bench

#endif  // KVROUTER_TESTS_BENCH_GRPC_BENCH_PROMPTS_H_
