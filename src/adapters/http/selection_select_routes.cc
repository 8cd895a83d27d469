#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "adapters/http/selection_explanation.h"
#include "adapters/http/selection_headers.h"
#include "base/status_macros.h"
#include "kvrouter/block_hash.h"
#include "service/steering_headers.h"

namespace kvrouter {
namespace {

// The prompt as hashes: what outlives the request and what the answer shows.
struct PromptHashes {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
};

PromptHashes HashesOf(const RouteRequest& request, const BlockNaming& naming) {
  PromptHashes hashes;
  if (const auto* given = std::get_if<HashPrompt>(&request.prompt)) {
    hashes.local.assign(given->local_hashes.begin(), given->local_hashes.end());
    hashes.sequence.assign(given->sequence_hashes.begin(), given->sequence_hashes.end());
    return hashes;
  }
  const auto& [tokens, multimodal] = std::get<TokenPrompt>(request.prompt);
  AppendLocalBlockHashes(
      tokens,
      {.block_size_tokens = naming.block_size_tokens,
       .block_seed = BlockSeed({.lora_name = request.lora_name, .cache_salt = request.cache_salt}),
       .is_eagle = naming.is_eagle,
       .image_token_id = naming.image_token_id,
       .multimodal = multimodal},
      &hashes.local);
  AppendSequenceHashes(hashes.local, &hashes.sequence);
  return hashes;
}

BlockNaming NamingOf(const RouteDecision& decision) {
  return {.block_size_tokens = decision.block_size_tokens,
          .is_eagle = decision.is_eagle,
          .image_token_id = decision.image_token_id};
}

}  // namespace

// One call under way. Shared by whoever may answer it and by the connection, which tells when the
// client leaves. Until Submit has returned it belongs to the door's thread; then to the one that
// answers, but for the id and the ticket, which do not change.
class SelectionApi::SelectCall : public std::enable_shared_from_this<SelectCall> {
 public:
  SelectCall(const Parts& parts, bool book, std::shared_ptr<ApiRoutes::Reply> reply)
      : parts_(parts), book_(book), reply_(std::move(reply)) {}

  absl::Status Read(const HttpRequest& request) {
    KVR_RETURN_IF_ERROR(CheckJsonContent(request));
    KVR_ASSIGN_OR_RETURN(headers_, ReadSteeringHeaders(request.headers));
    KVR_ASSIGN_OR_RETURN(body_, ReadSelectionBody(request.body, BodyKind::kSelect));
    KVR_ASSIGN_OR_RETURN(route_, ToRouteRequest(body_));
    KVR_ASSIGN_OR_RETURN(route_.session_id, ReadSessionId(request, body_));
    ApplySteering(headers_, &route_);
    route_.book = book_;
    route_.may_wait = book_ || !body_.advisory;
    return absl::OkStatus();
  }

  void Start() {
    const auto wait = [self = shared_from_this()](TicketId ticket) -> RoutingService::Completion {
      self->ticket_ = ticket;
      self->KeepHashesOnly();
      return [self](RoutingService::Answer answer) { self->Finish(std::move(answer)); };
    };
    auto answer = parts_.routing->Submit(route_, wait, &request_id_);
    if (answer) return Finish(*std::move(answer));
    // Also of an answer that is on its way: then the booking goes back.
    reply_->OnGone([self = shared_from_this()] {
      self->parts_.routing->Abandon(self->request_id_, self->ticket_);
    });
  }

  void Refuse(const absl::Status& status) { reply_->Answer(status); }

 private:
  // While it waits: tokens take several times as much.
  void KeepHashesOnly() {
    const auto naming = parts_.router->Naming(route_.model_name, route_.routing_group);
    if (!naming.ok()) return;
    hashes_ = HashesOf(route_, *naming);
    route_.prompt = HashPrompt{};
    body_.token_ids.reset();
    body_.mm_routing.reset();
    body_.block_mm_infos.clear();
    body_.block_hashes.reset();
    body_.sequence_hashes.reset();
  }

  void Finish(RoutingService::Answer answer) {
    if (!answer.ok()) return reply_->Answer(answer.status());
    const RouteDecision& decision = *answer;
    const bool cached = !book_ && !body_.selection_id.empty();
    if (!hashes_ && (book_ || cached)) hashes_ = HashesOf(route_, NamingOf(decision));
    // The text first: what is cached takes the hashes away.
    const std::string& id = book_ ? request_id_ : body_.selection_id;
    std::optional<BookedPrompt> booked;
    if (book_) {
      booked = BookedPrompt{.sequence_hashes = hashes_->sequence,
                            .track_prefill_tokens = body_.overrides.track_prefill_tokens.value_or(
                                parts_.router->Config()->scheduler.track_prefill_tokens)};
    }
    std::string text = SelectionJson(id, route_, decision, booked);
    if (headers_.explain) text = WithExplanation(std::move(text), id, decision);
    if (cached) Cache(decision);
    reply_->Answer(JsonAnswer(200, std::move(text)));
  }

  void Cache(const RouteDecision& decision) {
    parts_.cache->Put({.selection_id = body_.selection_id,
                       .model_name = body_.model_name,
                       .routing_group = body_.routing_group,
                       .target = decision.target,
                       .block_hashes = std::move(hashes_->local),
                       .sequence_hashes = std::move(hashes_->sequence),
                       .isl_tokens = decision.isl_tokens,
                       .effective_prefill_tokens = EffectivePrefillTokens(decision),
                       .overrides = body_.overrides,
                       .expected_output_tokens = body_.expected_output_tokens,
                       .session_id = route_.session_id},
                      parts_.clock->Now());
  }

  const Parts& parts_;
  const bool book_;
  const std::shared_ptr<ApiRoutes::Reply> reply_;
  SteeringHeaders headers_;
  SelectionBody body_;
  RouteRequest route_;  // borrows from body_
  std::string request_id_;
  TicketId ticket_ = kNoTicket;
  std::optional<PromptHashes> hashes_;
};

void SelectionApi::Select(const HttpRequest& request, bool book,
                          const std::shared_ptr<ApiRoutes::Reply>& reply) {
  const auto call = std::make_shared<SelectCall>(parts_, book, reply);
  const absl::Status read = Counted(parts_.routing, call->Read(request));
  if (!read.ok()) return call->Refuse(read);
  call->Start();
}

}  // namespace kvrouter
