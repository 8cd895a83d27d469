#ifndef KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_ENGINE_H_
#define KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_ENGINE_H_

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "virtual_link.h"

namespace kvrouter {

// What goes wrong with a leg.
enum class Fault {
  kNone,
  kRefuse,
  kStallBeforeHead,
  kStallMidStream,  // after the first token; of an answer that does not stream: after its half
  kCutBeforeFirstByte,
  kCutMidStream,
  k500,
  k429,
  k400,
  kErrorEvent,    // in place of output; of an answer that does not stream: finish_reason "error"
  kRefusalEvent,  // of streams: in place of output, and it speaks against the request
  kMissingHandshake,
  kWrongHandshake,
  kLocalHandshake,
  kLateHandshake,  // its head long before its body
  kRestart,        // after the answer, before the next leg
};

enum class EngineLegKind { kServe, kProduce, kConsume };

// A vLLM-like engine in virtual time: its answers depend on the prompt alone, whatever leg it is,
// so that a test can say what is right.
class VirtualEngine {
 public:
  static constexpr int kDefaultTokens = 5;

  // What engines have in common.
  struct Side {
    std::map<std::string, std::string>
        held;  // remote_request_id -> engine id that holds its blocks
    // The next so many legs of the kind, whoever gets them, have the fault.
    std::map<EngineLegKind, std::pair<Fault, int>> faults;
    int faults_taken = 0;
    void Break(EngineLegKind kind, Fault fault, int times = 1) { faults[kind] = {fault, times}; }
  };

  VirtualEngine(VirtualLink* link, Side* side, std::string url)
      : side_(side), url_(std::move(url)) {
    link->SetEngine(url_, [this](const auto& exchange) { Handle(exchange); });
  }

  // The text a prompt is answered with.
  static std::string Answer(const std::vector<uint32_t>& ids, int tokens) {
    uint64_t sum = 17;
    for (const uint32_t id : ids) sum = sum * 31 + id;
    std::string text;
    for (int i = 0; i < tokens; ++i) text += fmt::format(" {}", (sum >> (i % 8)) % 997);
    return text;
  }
  static std::vector<uint32_t> IdsOfText(const std::string& text) {
    return {text.begin(), text.end()};
  }
  // Templates of another version say something else before the conversation.
  std::vector<uint32_t> IdsOfChat(const nlohmann::json& messages) const {
    return IdsOfText(chat_template + messages.dump());
  }

  // The next leg of this kind has the fault.
  void Break(EngineLegKind kind, Fault fault, int times = 1) { faults_[kind] = {fault, times}; }
  std::function<void()> on_restart;

  std::string chat_template;
  bool offers_tokenize = true;
  bool offers_render = true;
  Fault tokenize_fault = Fault::kNone;
  int cached_tokens = 0;
  bool stops_inside_usage = false;  // streams end before the line end behind it
  int served = 0;
  int produced = 0;
  int consumed = 0;
  int tokenized = 0;
  std::chrono::milliseconds token_time{5};
  std::string engine_id = "engine-1";

 private:
  using Exchange = std::shared_ptr<VirtualLink::Exchange>;
  using Json = nlohmann::json;

  struct Work {
    Exchange exchange;
    Json body;
    std::vector<uint32_t> ids;
    bool is_chat = false;
    bool stream = false;
    int tokens = kDefaultTokens;
    Fault fault = Fault::kNone;
  };

  void Handle(const Exchange& exchange) {
    const std::string& path = exchange->call.path;
    const Json body =
        exchange->call.body ? Json::parse(*exchange->call.body, nullptr, false) : Json();
    if (path == "/tokenize" || path == "/v1/chat/completions/render") {
      Tokenize(exchange, path, body);
      return;
    }
    if (path != "/v1/completions" && path != "/v1/chat/completions") {
      exchange->Head(200, {{"content-type", "application/json"}});
      exchange->Body(R"({"path":")" + path + R"("})");
      exchange->End(EngineEnd::kComplete);
      return;
    }
    Work work{.exchange = exchange, .body = body, .ids = {}, .is_chat = path != "/v1/completions"};
    work.stream = body.value("stream", false);
    work.tokens = body.value("max_tokens", kDefaultTokens);
    if (work.is_chat) {
      work.ids = IdsOfChat(body.at("messages"));
    } else {
      const Json& prompt = body.at("prompt");
      work.ids = prompt.is_string() ? IdsOfText(prompt.get<std::string>())
                                    : prompt.get<std::vector<uint32_t>>();
    }
    const Json params = body.value("kv_transfer_params", Json());
    const bool produces = params.is_object() && params.value("do_remote_decode", false);
    const bool consumes = params.is_object() && params.value("do_remote_prefill", false);
    const EngineLegKind kind = produces   ? EngineLegKind::kProduce
                               : consumes ? EngineLegKind::kConsume
                                          : EngineLegKind::kServe;
    work.fault = Take(kind);
    if (BreaksBefore(work)) return;
    if (produces) {
      Produce(work);
    } else if (consumes && !Pull(params)) {
      Refuse(exchange, 500, "the blocks cannot be pulled");
    } else {
      ++(consumes ? consumed : served);
      work.stream ? Stream(work) : Whole(work);
    }
  }

  // Of the body; empty: it says none, or two.
  static std::string TypeOf(const EngineCall& call) {
    std::string type;
    for (const auto& [name, value] : call.headers) {
      if (name == "content-type") type = type.empty() ? value : "";
    }
    return type;
  }

  void Tokenize(const Exchange& exchange, const std::string& path, const Json& body) {
    if (tokenize_fault == Fault::kStallBeforeHead) return;
    if (tokenize_fault == Fault::kRefuse) {
      exchange->End(EngineEnd::kConnectFailed, "refused");
      return;
    }
    const bool offered = path == "/tokenize" ? offers_tokenize : offers_render;
    if (tokenize_fault == Fault::k500 || !offered) {
      Refuse(exchange, offered ? 500 : 404, "no tokens");
      return;
    }
    if (TypeOf(exchange->call) != "application/json") {
      Refuse(exchange, 400, "Unsupported Media Type: Only 'application/json' is allowed");
      return;
    }
    ++tokenized;
    const auto ids = body.contains("messages") ? IdsOfChat(body["messages"])
                                               : IdsOfText(body.value("prompt", ""));
    const Json answer = path == "/tokenize" ? Json{{"count", ids.size()}, {"tokens", ids}}
                                            : Json{{"token_ids", ids}};
    exchange->Head(200, {{"content-type", "application/json"}});
    exchange->Body(answer.dump());
    exchange->End(EngineEnd::kComplete);
  }

  Fault Take(EngineLegKind kind) {
    for (auto* faults : {&faults_, &side_->faults}) {
      auto& [fault, times] = (*faults)[kind];
      if (times == 0) continue;
      --times;
      ++side_->faults_taken;
      return fault;
    }
    return Fault::kNone;
  }

  static void Refuse(const Exchange& exchange, int status, const std::string& message) {
    exchange->Head(status, {{"content-type", "application/json"}});
    exchange->Body(Json{{"error", {{"message", message}, {"code", status}}}}.dump());
    exchange->End(EngineEnd::kComplete);
  }

  static bool BreaksBefore(const Work& work) {
    switch (work.fault) {
      case Fault::kRefuse:
        work.exchange->End(EngineEnd::kConnectFailed, "refused");
        return true;
      case Fault::kStallBeforeHead:
        return true;
      case Fault::kCutBeforeFirstByte:
        work.exchange->End(EngineEnd::kCut, "reset");
        return true;
      case Fault::k500:
        Refuse(work.exchange, 500, "broken");
        return true;
      case Fault::k429:
        Refuse(work.exchange, 429, "full");
        return true;
      case Fault::k400:
        Refuse(work.exchange, 400, "bad request of the engine's own words");
        return true;
      default:
        return false;
    }
  }

  bool Pull(const Json& params) {
    const auto held = side_->held.find(params.value("remote_request_id", ""));
    return held != side_->held.end() && held->second == params.value("remote_engine_id", "");
  }

  void Produce(const Work& work) {
    ++produced;
    const std::string id = fmt::format("{}-{}", engine_id, ++next_id_);
    Json params = {{"do_remote_prefill", true},       {"do_remote_decode", false},
                   {"remote_engine_id", engine_id},   {"remote_request_id", id},
                   {"remote_host", "10.1.2.3"},       {"remote_port", 5600},
                   {"remote_block_ids", {{1, 2, 3}}}, {"field_of_a_later_version", 1}};
    side_->held[id] = engine_id;
    if (work.fault == Fault::kMissingHandshake) params = nullptr;
    if (work.fault == Fault::kWrongHandshake) params["remote_block_ids"] = Json::array();
    if (work.fault == Fault::kLocalHandshake) params["remote_host"] = "localhost";
    Json answer = {{"choices", {{{"index", 0}, {"text", " x"}, {"finish_reason", "length"}}}},
                   {"kv_transfer_params", params}};
    const Exchange exchange = work.exchange;
    const std::string text = answer.dump();
    exchange->At(token_time, [this, exchange, text, fault = work.fault] {
      exchange->Head(200, {{"content-type", "application/json"}});
      if (fault == Fault::kStallMidStream) return;
      if (fault == Fault::kCutMidStream) {
        exchange->Body(text.substr(0, text.size() / 2));
        exchange->End(EngineEnd::kCut, "reset");
        return;
      }
      const auto rest = [this, exchange, text, fault] {
        if (fault == Fault::kRestart) {
          engine_id += "-restarted";
          side_->held.clear();
          if (on_restart) on_restart();
        }
        exchange->Body(text);
        exchange->End(EngineEnd::kComplete);
      };
      if (fault == Fault::kLateHandshake) {
        exchange->At(std::chrono::seconds(8), rest);
      } else {
        rest();
      }
    });
  }

  static std::string Event(const Json& json) { return "data: " + json.dump() + "\n\n"; }

  Json Usage(const Work& work) const {
    return {{"prompt_tokens", work.ids.size()},
            {"completion_tokens", work.tokens},
            {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
  }

  // The pieces of a token, each an event of its own.
  static Json Chunk(const Work& work, const std::string& text, const Json& finish) {
    Json choice = {{"index", 0}, {"finish_reason", finish}};
    if (work.is_chat) {
      choice["delta"] = {{"content", text}};
    } else {
      choice["text"] = text;
    }
    return {{"choices", {choice}}};
  }

  void Stream(const Work& work) {
    const Exchange exchange = work.exchange;
    exchange->Head(200, {{"content-type", "text/event-stream; charset=utf-8"}});
    if (work.is_chat) {
      exchange->Body(Event({{"choices",
                             {{{"index", 0},
                               {"delta", {{"role", "assistant"}, {"content", ""}}},
                               {"finish_reason", nullptr}}}}}));
    }
    if (work.fault == Fault::kErrorEvent || work.fault == Fault::kRefusalEvent) {
      const bool refuses = work.fault == Fault::kRefusalEvent;
      exchange->Body(Event({{"error",
                             {{"message", refuses ? "no such grammar" : "no blocks"},
                              {"code", refuses ? 400 : 500}}}}));
      exchange->Body("data: [DONE]\n\n");
      exchange->End(EngineEnd::kComplete);
      return;
    }
    NextToken(work, 0);
  }

  void NextToken(const Work& work, int i) {
    work.exchange->At(token_time, [this, work, i] {
      const Exchange& exchange = work.exchange;
      if (i == work.tokens) {
        if (work.body.contains("stream_options")) {
          std::string usage = Event({{"choices", Json::array()}, {"usage", Usage(work)}});
          if (stops_inside_usage) usage.pop_back();
          exchange->Body(usage);
        }
        if (!stops_inside_usage) exchange->Body("data: [DONE]\n\n");
        exchange->End(EngineEnd::kComplete);
        return;
      }
      const std::string all = Answer(work.ids, i + 1);
      const std::string before = Answer(work.ids, i);
      const std::string event = Event(
          Chunk(work, all.substr(before.size()), i + 1 == work.tokens ? Json("length") : Json()));
      if (i == 1 && work.fault == Fault::kStallMidStream) return;
      if (i == 1 && work.fault == Fault::kCutMidStream) {
        exchange->Body(event.substr(0, event.size() / 2));
        exchange->End(EngineEnd::kCut, "reset");
        return;
      }
      exchange->Body(event);
      NextToken(work, i + 1);
    });
  }

  void Whole(const Work& work) {
    const std::string text = Answer(work.ids, work.tokens);
    Json choice = {{"index", 0}, {"finish_reason", "length"}};
    if (work.is_chat) {
      choice["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      choice["text"] = text;
    }
    if (work.fault == Fault::kErrorEvent) choice["finish_reason"] = "error";
    const std::string answer = Json{{"choices", {choice}}, {"usage", Usage(work)}}.dump();
    const Exchange exchange = work.exchange;
    exchange->At(token_time * work.tokens, [exchange, answer, fault = work.fault] {
      exchange->Head(200, {{"content-type", "application/json"}});
      if (fault == Fault::kStallMidStream || fault == Fault::kCutMidStream) {
        exchange->Body(answer.substr(0, answer.size() / 2));
        if (fault == Fault::kCutMidStream) exchange->End(EngineEnd::kCut, "reset");
        return;
      }
      exchange->Body(answer);
      exchange->End(EngineEnd::kComplete);
    });
  }

  Side* const side_;
  const std::string url_;
  std::map<EngineLegKind, std::pair<Fault, int>> faults_;
  int next_id_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_ENGINE_H_
