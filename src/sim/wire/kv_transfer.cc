#include "sim/wire/kv_transfer.h"

#include <fmt/format.h>

#include <utility>

#include "sim/wire/completion_reply.h"

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

KvTransfer::PullAnswer Refuse(int status, std::string message) {
  return {.status = status,
          .body = ErrorBody(message, "kv_transfer_error", status),
          .released_model_id = {}};
}

std::string TextOf(const Json& body, const char* name) {
  const auto member = body.find(name);
  return member != body.end() && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace

KvTransfer::KvTransfer(KvTransferConfig config, std::string engine_id)
    : config_(std::move(config)), engine_id_(std::move(engine_id)) {}

KvAsk KvTransfer::Asked(const Json& params) const {
  const KvAsk asked = WhatIsAsked(params);
  if (asked == KvAsk::kProduce && config_.producer) return asked;
  if (asked == KvAsk::kConsume && config_.consumer) return asked;
  return KvAsk::kNothing;
}

Json KvTransfer::Hold(const Produced& produced, MonotonicTime now) {
  // A client may send one id twice, so the engine adds what makes it unique, as vLLM does.
  const std::string request_id = fmt::format("{}-{:08x}", produced.request_id, produced.model_id);
  pins_.Add(request_id, {.model_id = produced.model_id,
                         .blocks = produced.block_ids.size(),
                         .expires_at = now + config_.lease});
  return HandshakeJson({.source = {.engine_id = engine_id_,
                                   .request_id = request_id,
                                   .host = config_.host,
                                   .port = config_.port},
                        .block_ids = produced.block_ids,
                        .nested_block_ids = config_.nested_block_ids,
                        .tokens = produced.tokens,
                        .tp_size = config_.tp_size});
}

KvTransfer::PullAnswer KvTransfer::AnswerPull(std::string_view body, MonotonicTime now) {
  const Json question = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!question.is_object()) return Refuse(400, "body: not a JSON object");
  const std::string engine_id = TextOf(question, "engine_id");
  const std::string request_id = TextOf(question, "request_id");
  if (engine_id != engine_id_) {
    return Refuse(409, fmt::format("engine_id '{}' is not this engine, {}", engine_id, engine_id_));
  }
  if (TextOf(question, "step") == "end") {
    const std::optional<KvPins::Pin> pin = pins_.TakeFetched(request_id);
    if (!pin) return Refuse(404, fmt::format("no blocks are held for request '{}'", request_id));
    return {.status = 200, .body = "{}", .released_model_id = pin->model_id};
  }
  const std::string compatibility = TextOf(question, "compatibility");
  if (compatibility != config_.compatibility) {
    return Refuse(409, fmt::format("compatibility '{}' cannot exchange KV with '{}'", compatibility,
                                   config_.compatibility));
  }
  if (!pins_.Extend(request_id, now + config_.lease)) {
    return Refuse(404, fmt::format("no blocks are held for request '{}'", request_id));
  }
  return {.status = 200, .body = "{}", .released_model_id = {}};
}

std::vector<uint64_t> KvTransfer::TakeExpired(MonotonicTime now) {
  std::vector<uint64_t> model_ids;
  for (const KvPins::Pin& pin : pins_.TakeExpired(now)) model_ids.push_back(pin.model_id);
  return model_ids;
}

void KvTransfer::Restart(std::string engine_id) {
  engine_id_ = std::move(engine_id);
  pins_ = KvPins();
}

}  // namespace kvrouter::sim
