#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_DISPATCH_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_DISPATCH_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"
#include "adapters/metrics/metric_buckets.h"

namespace kvrouter::catalogue {

// Requests carried out: their legs and what was delivered, tokenising, connections to engines.

// clang-format off
// Dispatch.
inline constexpr auto kDispatchMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kFrontendCachedTokens, .name = "dynamo_frontend_cached_tokens",
 .type = kHistogram, .labels = "model", .unit = "tokens", .weighting = kRequest,
 .origin = kDynamo, .bounds = kInputTokensBounds,
 .meaning = "Prompt tokens that the engine says it found in its cache "
            "(usage.prompt_tokens_details.cached_tokens), per dispatched request.",
 .moves = "When the answer of a dispatched request says so."},
{.metric = Metric::kDispatchRequests, .name = "kvrouter_dispatch_requests_total",
 .type = kCounter, .labels = "endpoint, outcome", .unit = "requests", .weighting = kRequest,
 .origin = kOurs,
 .meaning = "Requests of the OpenAI door, by path and how they ended (docs/dispatch.md#outcomes).",
 .moves = "When the request has ended, once."},
{.metric = Metric::kDispatchLiveRequests, .name = "kvrouter_dispatch_live_requests",
 .type = kGauge, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "Requests of the OpenAI door that have not ended.",
 .moves = "When one comes and when it ends."},
{.metric = Metric::kDispatchRequestTime, .name = "kvrouter_dispatch_request_seconds",
 .type = kHistogram, .labels = "endpoint", .unit = "seconds", .weighting = kRequest,
 .origin = kOurs, .bounds = kFirstTokenSecondsBounds,
 .meaning = "From the arrival of a request at the OpenAI door to the end of its answer, those that "
            "failed included.",
 .moves = "When the request has ended."},
{.metric = Metric::kDispatchFirstTokenTime,
 .name = "kvrouter_dispatch_time_to_first_token_seconds", .type = kHistogram,
 .labels = "endpoint", .unit = "seconds", .weighting = kRequest, .origin = kOurs,
 .bounds = kFirstTokenSecondsBounds,
 .meaning = "From the arrival of a request at the OpenAI door to the first token handed to its "
            "client: tokenising, waiting, legs and fallbacks included.",
 .moves = "With the first token of a streamed answer."},
{.metric = Metric::kDispatchLegs, .name = "kvrouter_dispatch_legs_total", .type = kCounter,
 .labels = "kind, result", .unit = "legs", .weighting = kEach, .origin = kOurs,
 .meaning = "Legs sent to engines, by what they were for and how they ended.",
 .moves = "When a leg has ended."},
{.metric = Metric::kDispatchLegTime, .name = "kvrouter_dispatch_leg_seconds", .type = kHistogram,
 .labels = "kind", .unit = "seconds", .weighting = kEach, .origin = kOurs,
 .bounds = kFirstTokenSecondsBounds,
 .meaning = "From sending a leg to its end, however it ended.",
 .moves = "When a leg has ended."},
{.metric = Metric::kDispatchFallbacks, .name = "kvrouter_dispatch_fallbacks_total",
 .type = kCounter, .labels = "reason", .unit = "fallbacks", .weighting = kEach, .origin = kOurs,
 .meaning = "Times a request was not served as planned or wished, and served all the same if it "
            "could be (docs/dispatch.md#fallbacks).",
 .moves = "With every such turn; a request can take several."},
{.metric = Metric::kDispatchOutgrown, .name = "kvrouter_dispatch_outgrown_answers_total",
 .type = kCounter, .labels = "what", .unit = "answers", .weighting = kEach, .origin = kOurs,
 .meaning = "Answers of workers that outgrew what is held of them so that a failure can be "
            "retried: reply (does not stream), stream_head (events before the first output), "
            "first_event (the one with it), which are passed on and retried no more; error, whose "
            "end is lost; producer, which is of no use (docs/dispatch.md#fallbacks).",
 .moves = "When one does, once."},
{.metric = Metric::kDispatchRetries, .name = "kvrouter_dispatch_retries_total",
 .type = kCounter, .unit = "retries", .weighting = kEach, .origin = kOurs,
 .meaning = "Requests sent to another worker since their leg failed before the first byte.",
 .moves = "When a request that was retried has ended, by the number of its retries."},
{.metric = Metric::kDispatchLeasesLeft, .name = "kvrouter_dispatch_leases_left_total",
 .type = kCounter, .unit = "leases", .weighting = kEach, .origin = kOurs,
 .meaning = "Producer steps whose blocks nobody pulled: the engine holds them until its lease is "
            "over.",
 .moves = "When the handshake of such a step is not used."},
{.metric = Metric::kDeliveredPromptTokens, .name = "kvrouter_delivered_prompt_tokens_total",
 .type = kCounter, .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "Prompt tokens of the dispatched requests whose engine said how many of them it found "
            "in its cache: the denominator of the next two.",
 .moves = "When the answer of a dispatched request says so."},
{.metric = Metric::kDeliveredPredictedTokens,
 .name = "kvrouter_delivered_predicted_tokens_total", .type = kCounter, .unit = "tokens",
 .weighting = kToken, .origin = kOurs,
 .meaning = "What the router had predicted the engine would find, of the same requests.",
 .moves = "With kvrouter_delivered_prompt_tokens_total."},
{.metric = Metric::kDeliveredOverlapTokens, .name = "kvrouter_delivered_overlap_tokens_total",
 .type = kCounter, .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "What the engine did find. Over kvrouter_delivered_prompt_tokens_total: the delivered "
            "hit rate, beside the chosen and the available one.",
 .moves = "With kvrouter_delivered_prompt_tokens_total."},
{.metric = Metric::kOverlapCalibrationError, .name = "kvrouter_overlap_calibration_error",
 .type = kHistogram, .labels = kRankLabels, .unit = "ratio", .weighting = kRequest,
 .origin = kOurs, .bounds = kCalibrationBounds,
 .meaning = "Delivered minus predicted overlap over prompt tokens, in -1..1, per dispatched "
            "request and worker that computed the prompt: below 0 the engine found less than the "
            "router thought.",
 .moves = "With kvrouter_delivered_prompt_tokens_total; a worker's series goes with it."},
});

// Tokenising.
inline constexpr auto kTokenizeMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kTokenizeTexts, .name = "kvrouter_tokenize_texts_total", .type = kCounter,
 .labels = "outcome", .unit = "texts", .weighting = kEach, .origin = kOurs,
 .meaning = "Texts whose token ids were wanted, by where they came from or why there are none "
            "(docs/dispatch.md#tokenisation).",
 .moves = "With every such text."},
{.metric = Metric::kTokenizeTime, .name = "kvrouter_tokenize_seconds", .type = kHistogram,
 .unit = "seconds", .weighting = kEach, .origin = kOurs, .bounds = kTokenizeSecondsBounds,
 .meaning = "What a request waited for an engine to tokenise its text, cached ones left out.",
 .moves = "With every answer of an engine, and every wait that was given up."},
{.metric = Metric::kTokenizeInFlight, .name = "kvrouter_tokenize_in_flight", .type = kGauge,
 .unit = "texts", .weighting = kLevel, .origin = kOurs,
 .meaning = "Texts on their way to engines.",
 .moves = "With every such call."},
{.metric = Metric::kTokenizeBreakersOpen, .name = "kvrouter_tokenize_breakers_open",
 .type = kGauge, .unit = "models", .weighting = kLevel, .origin = kOurs,
 .meaning = "Models whose engines are not asked to tokenise, since they failed several times in a "
            "row: their texts, or those as long as the ones that timed out, are routed by load "
            "alone.",
 .moves = "When a breaker opens or closes."},
{.metric = Metric::kTokenizeCacheEntries, .name = "kvrouter_tokenize_cache_entries",
 .type = kGauge, .unit = "texts", .weighting = kLevel, .origin = kOurs,
 .meaning = "Texts whose token ids are kept.",
 .moves = "When one comes or makes room."},
{.metric = Metric::kTokenizeCacheBytes, .name = "kvrouter_tokenize_cache_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Memory of these texts and ids.",
 .moves = "When one comes or makes room."},
{.metric = Metric::kTokenizeCacheEvicted, .name = "kvrouter_tokenize_cache_evicted_total",
 .type = kCounter, .unit = "texts", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept texts that made room for others (tokenize_cache_bytes).",
 .moves = "With every such text."},
});

// Connections to engines.
inline constexpr auto kEngineCallMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kEngineCalls, .name = "kvrouter_engine_calls_total", .type = kCounter,
 .labels = "end", .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP calls to engines, by how they ended on the wire; whatever status a complete "
            "answer had.",
 .moves = "When a call has ended or was called off."},
{.metric = Metric::kEngineCallsRetried, .name = "kvrouter_engine_calls_retried_total",
 .type = kCounter, .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "Calls sent once more on a new connection: the kept one had ended without an answer.",
 .moves = "With every such call."},
{.metric = Metric::kEngineCallsNow, .name = "kvrouter_engine_calls", .type = kGauge,
 .labels = "state", .unit = "calls", .weighting = kLevel, .origin = kOurs,
 .meaning = "Calls to engines that have not ended: those with a connection (running), those that "
            "wait for one (waiting).",
 .moves = "With every call."},
{.metric = Metric::kEngineConnections, .name = "kvrouter_engine_connections", .type = kGauge,
 .labels = "state", .unit = "connections", .weighting = kLevel, .origin = kOurs,
 .meaning = "Connections to engines: in use or being opened (busy), kept for the next call (idle).",
 .moves = "With every call, and when kept ones are closed."},
{.metric = Metric::kEngineConnectionsOpened, .name = "kvrouter_engine_connections_opened_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "Connections opened to engines.",
 .moves = "With every call for which none was kept."},
{.metric = Metric::kEngineConnectionsReused, .name = "kvrouter_engine_connections_reused_total",
 .type = kCounter, .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "Calls that went out on a kept connection.",
 .moves = "With every such call."},
{.metric = Metric::kEngineConnectionsClosed, .name = "kvrouter_engine_connections_closed_total",
 .type = kCounter, .labels = "why", .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept connections to engines that were closed: unused for too long (idle), by the "
            "engine (ended), or more than are kept (surplus).",
 .moves = "With every such connection."},
{.metric = Metric::kEngineBytes, .name = "kvrouter_engine_bytes_total", .type = kCounter,
 .labels = "direction", .unit = "bytes", .weighting = kEach, .origin = kOurs,
 .meaning = "Bytes to and from engines (sent, received), without those of TLS.",
 .moves = "With every piece of a call."},
{.metric = Metric::kEngineNameLookups, .name = "kvrouter_engine_name_lookups_total",
 .type = kCounter, .labels = "result", .unit = "lookups", .weighting = kEach, .origin = kOurs,
 .meaning = "Host names of engines asked of a name server: answered or failed.",
 .moves = "With every look-up that the cache did not answer."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_DISPATCH_METRICS_H_
