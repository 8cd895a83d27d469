#ifndef KVROUTER_ADAPTERS_HTTP_INDEXER_BODIES_H_
#define KVROUTER_ADAPTERS_HTTP_INDEXER_BODIES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/types.h"
#include "service/indexer_instances.h"

namespace kvrouter {

// Bodies of the indexer's API, read as strictly as those of the selection API (selection_bodies.h)
// and with the same errors. Pure functions, safe from any thread.

absl::StatusOr<InstanceRank> ReadRegisterBody(const std::string& body);
absl::StatusOr<InstanceSelector> ReadUnregisterBody(const std::string& body);

// A body of /query: tokens; or of /query_by_hash: local block hashes. The other one is empty.
struct IndexerQuery {
  std::string model_name;
  std::string routing_group = "default";
  std::vector<TokenId> token_ids;
  std::vector<LocalBlockHash> block_hashes;
  std::string lora_name;
  std::string cache_salt;
};
absl::StatusOr<IndexerQuery> ReadQueryBody(const std::string& body);
absl::StatusOr<IndexerQuery> ReadQueryByHashBody(const std::string& body);

// {"url":"http://peer:8090"}
absl::StatusOr<std::string> ReadPeerBody(const std::string& body);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_INDEXER_BODIES_H_
