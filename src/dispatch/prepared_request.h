#ifndef KVROUTER_DISPATCH_PREPARED_REQUEST_H_
#define KVROUTER_DISPATCH_PREPARED_REQUEST_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "dispatch/body_edit.h"
#include "dispatch/dispatch_config.h"
#include "dispatch/leg_bodies.h"
#include "dispatch/model_directory.h"
#include "dispatch/openai_request.h"
#include "dispatch/request_headers.h"
#include "dispatch/token_cache.h"
#include "dispatch/tokenizer.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// A client's request, read: what it is, who serves its model, and how it is put to the router and
// to the tokenizer. Thread-compatible.
class PreparedRequest {
 public:
  // Borrowed for the call.
  struct Sources {
    const ModelDirectory& directory;
    const DispatchConfig& config;
  };
  // Errors: kInvalidRequest, kTooLarge; kUnknownPartition for a body without a model that could be
  // guessed. A model nobody serves now is the router's to judge.
  static absl::StatusOr<PreparedRequest> Of(const Sources& sources, OpenAiEndpoint endpoint,
                                            const HeaderList& headers, std::string body,
                                            std::string_view routing_group = {});

  const OpenAiRequest& openai() const { return openai_; }
  const RequestHeaders& headers() const { return headers_; }
  const HeaderList& engine_headers() const { return engine_headers_; }
  const KnownPartition& partition() const { return *model_.partition; }
  bool is_chat() const { return openai_.endpoint == OpenAiEndpoint::kChatCompletions; }
  const TokenIds& ids() const { return ids_; }

  // What the tokenizer is asked; nothing if there is no text, or ids are there.
  std::optional<Tokenizer::Text> TextToTokenize() const;
  void SetIds(TokenIds ids) { ids_ = std::move(ids); }

  // Whether a plan of two legs would be right: the ids are known, and it is one prompt with one
  // answer. Of a chat also that the two engines render alike, which is theirs to say.
  bool MayHaveTwoLegs() const;

  // Whether the bodies of its streams ask for the usage, and the client's did not.
  bool AsksUsage() const { return ask_usage_ && Object() != nullptr; }
  // From now on they are as the client asked.
  void DoNotAskUsage() { ask_usage_ = false; }

  // Borrows the ids. The caller sets id, phase, exclusions and the plainness.
  RouteRequest ToRoute() const;

  // ---- Bodies. The client's own bytes where they serve. Null: it cannot be edited. ----
  std::shared_ptr<const std::string> PlainBody() const;
  std::shared_ptr<const std::string> ProducerBodyOf() const;
  std::shared_ptr<const std::string> ConsumerBodyOf(std::string_view handshake) const;

  // Prompt and body are not needed any more.
  void ReleaseInputs();

 private:
  SharedEdits TwoLegEdits() const;
  std::string_view AddedSalt() const;

  OpenAiRequest openai_;
  RequestHeaders headers_;
  HeaderList engine_headers_;
  ServedModel model_;
  std::string cache_salt_;
  std::shared_ptr<const std::string> body_;
  TokenIds ids_;  // null: none
  bool ask_usage_ = false;
  // Read when first wanted; borrows *body_.
  const JsonObject* Object() const;
  mutable std::optional<JsonObject> object_;
  mutable bool object_read_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_PREPARED_REQUEST_H_
