#include "dispatch/leg_bodies.h"

#include "base/json_text.h"

namespace kvrouter {
namespace {

constexpr std::string_view kKvTransferParams = "kv_transfer_params";
constexpr std::string_view kProduce =
    R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null})";

}  // namespace

BodyEdit EditsOf(const SharedEdits& shared) {
  BodyEdit edit;
  if (!shared.prompt_ids.empty()) {
    std::string ids;
    AppendJsonNumbers(shared.prompt_ids, &ids);
    edit.Set("prompt", std::move(ids));
  }
  if (!shared.cache_salt.empty()) {
    std::string salt;
    AppendJsonString(shared.cache_salt, &salt);
    edit.Set("cache_salt", std::move(salt));
  }
  if (shared.ask_usage) edit.Set("stream_options", R"({"include_usage":true})");
  return edit;
}

std::string ProducerBody(const JsonObject& body, const SharedEdits& shared) {
  BodyEdit edit = EditsOf(shared);
  edit.Set("stream", "false");
  edit.Set("max_tokens", "1");
  edit.Replace(body, "max_completion_tokens", "1");
  edit.Replace(body, "n", "1");
  edit.Remove("best_of");
  edit.Remove("stream_options");
  edit.Remove("min_tokens");
  edit.Remove("min_completion_tokens");
  edit.Set(kKvTransferParams, std::string(kProduce));
  return edit.Apply(body);
}

std::string ConsumerBody(const JsonObject& body, const SharedEdits& shared,
                         std::string_view handshake) {
  BodyEdit edit = EditsOf(shared);
  edit.Set(kKvTransferParams, std::string(handshake));
  return edit.Apply(body);
}

}  // namespace kvrouter
