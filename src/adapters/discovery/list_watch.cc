#include "adapters/discovery/list_watch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/ascii.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

constexpr int kGone = 410;

// Everything but letters, digits and -._~ as %XX.
std::string PercentEncoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = IsAsciiAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

std::string TextAt(const Json& object, const char* outer, const char* inner) {
  if (!object.is_object() || !object.contains(outer)) return {};
  const Json& middle = object[outer];
  if (!middle.is_object() || !middle.contains(inner) || !middle[inner].is_string()) return {};
  return middle[inner].get<std::string>();
}

std::string TextAt(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && object[name].is_string()
             ? object[name].get<std::string>()
             : std::string();
}

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

}  // namespace

ListWatch::ListWatch(std::string path, std::string selector, WatchedResource* resource)
    : path_(std::move(path)), selector_(PercentEncoded(selector)), resource_(resource) {}

std::string ListWatch::Target(uint64_t watch_timeout_seconds) const {
  std::string target = fmt::format("{}?labelSelector={}", path_, selector_);
  if (NeedsList()) {
    target += fmt::format("&limit={}", kPageObjects);
    if (!continue_.empty()) target += "&continue=" + PercentEncoded(continue_);
    return target;
  }
  return target + fmt::format(
                      "&watch=1&allowWatchBookmarks=true&resourceVersion={}"
                      "&timeoutSeconds={}",
                      PercentEncoded(version_), watch_timeout_seconds);
}

absl::Status ListWatch::OnListPage(const Json& page) {
  if (page.is_discarded()) return Malformed("the list is no JSON");
  if (!page.is_object() || !page.contains("items") || !page["items"].is_array())
    return Malformed("the list has no items");
  const std::string version = TextAt(page, "metadata", "resourceVersion");
  if (version.empty()) return Malformed("the list has no resourceVersion");
  if (!listing_) resource_->BeginList();
  listing_ = true;
  for (const Json& object : page["items"]) {
    if (absl::Status status = resource_->AddListed(object); !status.ok()) {
      BeginListAgain();
      return status;
    }
  }
  continue_ = TextAt(page, "metadata", "continue");
  if (!continue_.empty()) return absl::OkStatus();
  resource_->CommitList();
  listing_ = false;
  version_ = version;
  return absl::OkStatus();
}

ListWatch::WatchAnswer ListWatch::OnWatchEvent(const Json& event) {
  if (event.is_discarded()) return Misunderstood("a watch event is no JSON");
  const std::string type = TextAt(event, "type");
  if (!event.contains("object") || !event["object"].is_object())
    return Misunderstood("a watch event has no object");
  const Json& object = event["object"];
  if (type == "ERROR") {
    const bool expired = object.contains("code") && object["code"] == kGone;
    BeginListAgain();
    return {expired ? Verdict::kExpired : Verdict::kRefused, TextAt(object, "message")};
  }
  const std::string version = TextAt(object, "metadata", "resourceVersion");
  if (version.empty()) return Misunderstood("a watched object has no resourceVersion");
  if (type == "ADDED" || type == "MODIFIED") {
    if (const absl::Status status = resource_->Upsert(object); !status.ok())
      return Misunderstood({status.message().data(), status.message().size()});
  } else if (type == "DELETED") {
    resource_->Remove(TextAt(object, "metadata", "name"));
  } else if (type != "BOOKMARK") {
    return Misunderstood(fmt::format("a watch event of type '{}'", type));
  }
  version_ = version;
  return {type == "BOOKMARK" ? Verdict::kNothing : Verdict::kChanged, ""};
}

ListWatch::WatchAnswer ListWatch::Misunderstood(std::string_view what) {
  BeginListAgain();
  return {Verdict::kMalformed, std::string(what)};
}

void ListWatch::OnStatus(int status) {
  // A page of a list whose version is gone, a watch from a version that is gone or too new: from
  // the start. Other refusals of a list (403, 429, 503) leave it where it was.
  if (status == kGone || !NeedsList()) BeginListAgain();
}

void ListWatch::BeginListAgain() {
  version_.clear();
  continue_.clear();
  listing_ = false;
}

}  // namespace kvrouter
