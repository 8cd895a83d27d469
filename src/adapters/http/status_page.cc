#include "adapters/http/status_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "adapters/http/http_format.h"
#include "base/ascii.h"

namespace kvrouter {
namespace {

constexpr std::string_view kStyle =
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em;color:#222;background:#fff}"
    "h1{font-size:1.4em;margin:0}h2{font-size:1.1em;margin:1.6em 0 .3em}"
    "table{border-collapse:collapse}th,td{padding:.15em .8em .15em 0;text-align:left;"
    "border-bottom:1px solid #ddd;vertical-align:top}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums}.good{color:#175e17}.bad{color:#a11212;font-weight:600}"
    ".quiet{color:#666}";

uint64_t LowerTierBlocks(const std::array<uint64_t, kStorageTierCount>& tier_blocks) {
  uint64_t sum = 0;
  for (size_t tier = 1; tier < tier_blocks.size(); ++tier) sum += tier_blocks[tier];
  return sum;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string PathSegment(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsAsciiAlphanumeric(c) || c == '-' || c == '_') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "–";
}

std::string TargetText(Target target) {
  return fmt::format("{}/{}", static_cast<uint64_t>(target.worker), target.dp_rank);
}

class Page {
 public:
  explicit Page(const StatusReport& report) : report_(report) {
    for (const FeedReport& feed : report.feeds) feeds_[feed.target] = &feed;
    for (const WorkerSpec& worker : report.workers) workers_[worker.id] = &worker;
  }

  std::string Text() && {
    Head();
    Verdict();
    Hits();
    if (!report_.dispatch.address.empty()) Dispatched();
    for (const PartitionSnapshot& partition : report_.partitions) {
      if (!partition.loads.empty() || partition.bookings > 0) Partition(partition);
    }
    if (left_out_ > 0) Add("<p class=quiet>and {} more ranks: /loads has all</p>\n", left_out_);
    Recent();
    Add("<p class=quiet>Reloads every 10 s. <a href=/metrics>/metrics</a> · <a "
        "href=/workers>/workers</a> · <a href=/loads>/loads</a> · <a href=/ready>/ready</a></p>\n"
        "</body></html>\n");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void Head() {
    Add("<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>kvrouter</title>"
        "<meta http-equiv=refresh content=10><style>{}</style></head><body>\n",
        kStyle);
    Add("<h1>kvrouter {}</h1>\n<p>", Escaped(report_.version));
    if (report_.readiness.ready) {
      Add("<span class=good>ready</span>, {} schedulable workers",
          report_.readiness.schedulable_workers);
    } else {
      Add("<span class=bad>not ready</span>: {}", Escaped(report_.readiness.reason));
    }
    Add("; up for {} s</p>\n", report_.uptime.count());
  }

  // Is the router blind, or is the workload cold?
  void Verdict() {
    const auto silent = static_cast<size_t>(
        std::count_if(report_.feeds.begin(), report_.feeds.end(),
                      [](const FeedReport& feed) { return feed.state != FeedState::kLive; }));
    Add("<p>");
    if (report_.feeds.empty()) {
      Add("No rank has an event feed: the router is blind to caches and goes by load. ");
    } else if (silent > 0) {
      Add("<span class=bad>{} of {} event feeds are not live</span>: what those ranks hold is "
          "unknown in part. ",
          silent, report_.feeds.size());
    } else {
      Add("All {} event feeds are live. ", report_.feeds.size());
    }
    const StatusHits& hits = report_.hits;
    if (hits.isl_tokens > 0) {
      Add("Of the prompt tokens, {} were cached somewhere eligible, and {} on the worker chosen: "
          "the first is how warm the workload is, the difference is what routing gave up for load.",
          Percent(hits.best_overlap_tokens, hits.isl_tokens),
          Percent(hits.overlap_tokens, hits.isl_tokens));
    } else {
      Add("No request has been booked yet.");
    }
    Add("</p>\n");
  }

  void Dispatched() {
    const StatusDispatch& dispatch = report_.dispatch;
    Add("<h2>Dispatch</h2>\n<p>OpenAI door on {}", Escaped(dispatch.address));
    if (const auto& door = report_.readiness.openai_door) {
      Add(" ({}), ", door->tls ? "TLS" : "plain text");
      if (door->problem.empty()) {
        Add("{} engines to send to", door->engines);
      } else {
        Add("<span class=bad>cannot dispatch</span>: {}", Escaped(door->problem));
      }
    }
    Add(": {} requests running, {} ended, {} of them failed. ", dispatch.running, dispatch.ended,
        dispatch.failed);
    if (dispatch.prompt_tokens > 0) {
      Add("Of the prompt tokens that engines reported on, {} were predicted to be cached there and "
          "{} were.",
          Percent(dispatch.predicted_tokens, dispatch.prompt_tokens),
          Percent(dispatch.delivered_tokens, dispatch.prompt_tokens));
    } else {
      Add("No engine has said yet what it found cached.");
    }
    Add("</p>\n");
  }

  void Hits() {
    const StatusHits& hits = report_.hits;
    Add("<h2>Predicted cache hits since start, {} booked requests</h2>\n<table><tr><th>weighted by"
        "<th class=n>hit rate<th class=n>cached<th class=n>of<th>read it as\n",
        hits.requests);
    Add("<tr><td>token<td class=n>{}<td class=n>{:.0f}<td class=n>{:.0f} tokens"
        "<td>comparable with the engine's own rate\n",
        Percent(hits.overlap_tokens, hits.isl_tokens), hits.overlap_tokens, hits.isl_tokens);
    Add("<tr><td>block<td class=n>{}<td class=n>{:.1f}<td class=n>{:.0f} blocks"
        "<td>work saved; a partial last block counts whole\n",
        Percent(hits.overlap_blocks, hits.isl_blocks), hits.overlap_blocks, hits.isl_blocks);
    Add("<tr><td>request<td class=n>{}<td class=n>–<td class=n>{} requests"
        "<td>the typical request; not the rate of the fleet\n</table>\n",
        Percent(hits.hit_ratio_sum, static_cast<double>(hits.requests)), hits.requests);
  }

  void Partition(const PartitionSnapshot& partition) {
    Add("<h2>{} · {}</h2>\n<p class=quiet>{} tokens a block, {} live bookings, {} blocks indexed "
        "({} held on devices, {} on lower tiers)</p>\n",
        Escaped(partition.model_name), Escaped(partition.routing_group),
        partition.block_size_tokens, partition.bookings, partition.index_unique_blocks,
        partition.index_holder_blocks, LowerTierBlocks(partition.tier_blocks));
    Add("<table><tr><th>worker/rank<th>address<th>role<th class=n>requests<th class=n>prefill "
        "tokens<th class=n>decode blocks<th class=n>blocks held<th class=n>on lower "
        "tiers<th>events\n");
    for (const TargetLoad& load : partition.loads) {
      if (targets_ == kMaxStatusTargets) {
        ++left_out_;
        continue;
      }
      ++targets_;
      TargetRow(load);
    }
    Add("</table>\n");
  }

  void TargetRow(const TargetLoad& load) {
    const auto worker = workers_.find(load.target.worker);
    const auto feed = feeds_.find(load.target);
    Add("<tr><td>{}<td>{}<td>{}{}<td class=n>{}<td class=n>{}<td class=n>{:.1f}<td class=n>{}<td "
        "class=n>{}<td",
        TargetText(load.target), worker == workers_.end() ? "" : Escaped(worker->second->address),
        WorkerRoleName(load.role), load.draining ? ", <span class=bad>draining</span>" : "",
        load.active_requests, load.active_prefill_tokens, load.active_decode_blocks,
        load.index_blocks, LowerTierBlocks(load.tier_blocks));
    if (feed == feeds_.end()) {
      Add(" class=quiet>none\n");
      return;
    }
    const bool live = feed->second->state == FeedState::kLive;
    Add(" class={}>{}{}{}\n", live ? "good" : "bad", FeedStateName(feed->second->state),
        feed->second->detail.empty() ? "" : ": ", Escaped(feed->second->detail));
  }

  void Recent() {
    Add("<h2>Recent decisions</h2>\n");
    if (report_.recent.empty()) {
      Add("<p class=quiet>none</p>\n");
      return;
    }
    Add("<table><tr><th>request (why)<th class=n>s ago<th>worker/rank<th>reason<th class=n>prompt "
        "tokens<th class=n>cached blocks<th class=n>of<th class=n>given up for load<th>\n");
    const size_t count = std::min(report_.recent.size(), kMaxStatusDecisions);
    for (size_t i = 0; i < count; ++i) {
      const RecentDecision& recent = report_.recent[i];
      const RouteDecision& d = recent.decision;
      Add("<tr><td><a href=/explain/{}>{}</a><td class=n>{:.1f}<td>{}<td>{}<td class=n>{}<td "
          "class=n>{:.1f}<td class=n>{}<td class=n>{:.1f}<td>{}\n",
          PathSegment(recent.request_id), Escaped(recent.request_id),
          std::chrono::duration<double>(recent.age).count(), TargetText(d.target),
          DecisionReasonName(d.reason), d.isl_tokens, d.effective_overlap_blocks, d.isl_blocks,
          d.regret_blocks, recent.live ? "live" : "");
    }
    Add("</table>\n");
  }

  const StatusReport& report_;
  std::map<Target, const FeedReport*> feeds_;
  std::map<WorkerId, const WorkerSpec*> workers_;
  size_t targets_ = 0;
  size_t left_out_ = 0;
  std::string out_;
};

}  // namespace

std::string StatusPageHtml(const StatusReport& report) { return Page(report).Text(); }

void AddStatusRoutes(HttpServer* server, std::function<StatusReport()> report) {
  const auto page = [report = std::move(report)](const HttpRequest&) {
    return HttpResponse{
        .content_type = "text/html; charset=utf-8",
        .headers = {{"Cache-Control", "no-store"},
                    {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"},
                    {"X-Content-Type-Options", "nosniff"}},
        .body = StatusPageHtml(report())};
  };
  server->Route("GET", "/", page);
  server->Route("GET", "/status", page);
}

}  // namespace kvrouter
