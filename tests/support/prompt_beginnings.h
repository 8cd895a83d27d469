#ifndef KVROUTER_TESTS_SUPPORT_PROMPT_BEGINNINGS_H_
#define KVROUTER_TESTS_SUPPORT_PROMPT_BEGINNINGS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/affinity/lineage.h"
#include "kvrouter/block_hash.h"

namespace kvrouter::testing {

// A prompt as the router identifies it, with what it borrows.
class OwnedPrompt {
 public:
  struct How {
    BlockNaming naming = {.block_size_tokens = 16};
    std::string_view cache_salt = {};
    bool as_hashes = false;
    std::vector<std::vector<MultimodalHash>> multimodal = {};
  };

  OwnedPrompt(std::span<const TokenId> tokens, const How& how)
      : how_(how), tokens_(tokens.begin(), tokens.end()) {
    std::vector<LocalBlockHash> local;
    AppendLocalBlockHashes(tokens_,
                           {.block_size_tokens = how.naming.block_size_tokens,
                            .block_seed = BlockSeed({.cache_salt = how_.cache_salt}),
                            .is_eagle = how.naming.is_eagle,
                            .image_token_id = how.naming.image_token_id,
                            .multimodal = how_.multimodal},
                           &local);
    AppendSequenceHashes(local, &chain_);
  }

  PromptBeginning View() const {
    return {.chain = chain_,
            .token_ids = how_.as_hashes ? std::span<const TokenId>() : tokens_,
            .isl_tokens = tokens_.size(),
            .naming = how_.naming,
            .block_seed = BlockSeed({.cache_salt = how_.cache_salt}),
            .multimodal = how_.multimodal};
  }

 private:
  How how_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceHash> chain_;
};

}  // namespace kvrouter::testing

#endif  // KVROUTER_TESTS_SUPPORT_PROMPT_BEGINNINGS_H_
