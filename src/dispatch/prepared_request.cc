#include "dispatch/prepared_request.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "service/request_limits.h"

namespace kvrouter {
namespace {

std::shared_ptr<const std::string> Shared(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

absl::StatusOr<PreparedRequest> PreparedRequest::Of(const Sources& sources, OpenAiEndpoint endpoint,
                                                    const HeaderList& headers, std::string body,
                                                    std::string_view routing_group) {
  PreparedRequest request;
  KVR_ASSIGN_OR_RETURN(request.openai_, ReadOpenAiRequest(endpoint, body, OpenAiLimits{}));
  KVR_ASSIGN_OR_RETURN(request.headers_, ReadRequestHeaders(headers, request.openai_.nvext));
  const std::string_view group =
      routing_group.empty() ? std::string_view(request.headers_.routing_group) : routing_group;
  auto model = sources.directory.Resolve({.model = request.openai_.model,
                                          .group = group,
                                          .preferred_group = sources.config.routing_group});
  if (model.ok()) {
    request.model_ = *std::move(model);
  } else if (request.openai_.model.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     "model is required: none or several are served");
  } else {
    // All its workers may have left for a moment; the router knows.
    auto nobody = std::make_shared<KnownPartition>();
    nobody->model_name = request.openai_.model;
    nobody->routing_group = group.empty() ? std::string_view(sources.config.routing_group) : group;
    request.model_.partition = std::move(nobody);
  }
  request.engine_headers_ = EngineHeaders(headers);
  request.cache_salt_ =
      request.openai_.cache_salt.empty() ? request.headers_.tenant : request.openai_.cache_salt;
  if (request.openai_.token_ids)
    request.ids_ =
        std::make_shared<const std::vector<TokenId>>(*std::move(request.openai_.token_ids));
  // Of several prompts or choices the usage is a sum that compares to no prediction, and with the
  // whole prompt in the answer an event may be too long to be read.
  request.ask_usage_ = sources.config.ask_usage && request.openai_.stream &&
                       !request.openai_.has_stream_options &&
                       request.openai_.plain == PlainReason::kNone;
  request.body_ = Shared(std::move(body));
  return request;
}

const JsonObject* PreparedRequest::Object() const {
  if (!object_read_) {
    object_ = JsonObject::Of(*body_);
    object_read_ = true;
  }
  return object_ ? &*object_ : nullptr;
}

std::optional<Tokenizer::Text> PreparedRequest::TextToTokenize() const {
  const bool has_text = openai_.text_bytes > 0 || openai_.has_messages;
  const JsonObject* const object = ids_ || !has_text ? nullptr : Object();
  if (object == nullptr) return std::nullopt;
  return Tokenizer::Text{.partition = model_.partition,
                         .ask = TokenizeBody(openai_, *object),
                         .chat_body = is_chat() ? body_ : nullptr,
                         .headers = engine_headers_,
                         .of_adapter = !model_.lora_name.empty()};
}

bool PreparedRequest::MayHaveTwoLegs() const {
  return ids_ && !ids_->empty() && openai_.plain == PlainReason::kNone && !headers_.aggregated;
}

RouteRequest PreparedRequest::ToRoute() const {
  RouteRequest route;
  route.model_name = model_.partition->model_name;
  route.routing_group = model_.partition->routing_group;
  if (ids_) route.prompt = TokenPrompt{*ids_};
  route.lora_name = model_.lora_name;
  route.cache_salt = cache_salt_;
  route.pinned = headers_.pinned;
  route.pinned_prefill = headers_.pinned_prefill;
  if (openai_.nvext.expected_output_tokens.value_or(0) > 0)
    route.expected_output_tokens = openai_.nvext.expected_output_tokens;
  route.constraints = openai_.nvext.constraints;
  route.session_id = headers_.session_id;
  ApplySteering(headers_, &route);
  return route;
}

std::string_view PreparedRequest::AddedSalt() const {
  return openai_.has_cache_salt && !openai_.cache_salt.empty() ? std::string_view() : cache_salt_;
}

SharedEdits PreparedRequest::TwoLegEdits() const {
  SharedEdits edits{.cache_salt = AddedSalt(), .ask_usage = AsksUsage()};
  if (!is_chat() && !openai_.token_ids_are_prompt) edits.prompt_ids = *ids_;
  return edits;
}

std::shared_ptr<const std::string> PreparedRequest::PlainBody() const {
  const BodyEdit edit = EditsOf({.cache_salt = AddedSalt(), .ask_usage = AsksUsage()});
  if (edit.empty()) return body_;
  const JsonObject* const object = Object();
  return object == nullptr ? nullptr : Shared(edit.Apply(*object));
}

std::shared_ptr<const std::string> PreparedRequest::ProducerBodyOf() const {
  const JsonObject* const object = Object();
  return object == nullptr ? nullptr : Shared(ProducerBody(*object, TwoLegEdits()));
}

std::shared_ptr<const std::string> PreparedRequest::ConsumerBodyOf(
    std::string_view handshake) const {
  const JsonObject* const object = Object();
  return object == nullptr ? nullptr : Shared(ConsumerBody(*object, TwoLegEdits(), handshake));
}

void PreparedRequest::ReleaseInputs() {
  object_.reset();
  object_read_ = true;
  body_ = nullptr;
  ids_ = nullptr;
  engine_headers_.clear();
}

}  // namespace kvrouter
