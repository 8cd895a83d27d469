#include <algorithm>
#include <string_view>
#include <vector>

#include "adapters/discovery/api_client.h"
#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {
namespace {

bool IsDiscoveryBackend(std::string_view text) {
  return text == "none" || text == "mem" || text == "kubernetes";
}

bool IsOriginOrEmpty(std::string_view text) { return text.empty() || ParseOrigin(text).ok(); }

// A DNS label, since it becomes part of a path.
bool IsNamespaceOrEmpty(std::string_view text) {
  return text.size() <= 63 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

void AddDiscoveryOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("workers-file", "KVROUTER_WORKERS_FILE", KVR_SETTING(workers_file.path),
                    "a path, or empty", Anything,
                    "File that lists workers (as the key workers of this one; YAML or JSON) and is "
                    "followed while the daemon runs; empty: none."));
  t.push_back(
      Whole("workers-file-poll-ms", "KVROUTER_WORKERS_FILE_POLL_MS",
            KVR_SETTING(workers_file.poll_period), 10, kDayMs,
            "How often that file is looked at, in ms; a change counts once two looks agree."));
  t.push_back(
      Words("discovery-backend", "DYN_DISCOVERY_BACKEND", KVR_SETTING(kubernetes.backend),
            "none, mem or kubernetes", IsDiscoveryBackend,
            "kubernetes: workers are pods, followed through the API server; mem: as none."));
  t.push_back(
      Whole("kv-cache-block-size", "DYN_KV_CACHE_BLOCK_SIZE",
            KVR_SETTING(kubernetes.block_size_tokens), 0, kMaxBlockSizeTokens,
            "Block size of discovered pods that do not say theirs, in tokens; 0: they must, or "
            "their engines with introspect-workers."));
}

void AddIntrospectionOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Switch(
      "introspect-workers", "KVROUTER_INTROSPECT_WORKERS", KVR_SETTING(introspection.enabled),
      "Ask the engines at the workers' addresses (GET /health, /v1/models, /metrics) for "
      "what is not declared, and show where they differ from what is."));
  t.push_back(Whole("introspect-period-ms", "KVROUTER_INTROSPECT_PERIOD_MS",
                    KVR_SETTING(introspection.period), 10, kDayMs,
                    "How often each engine is asked, in ms; slow ones up to 8 times less often."));
  t.push_back(Whole("introspect-timeout-ms", "KVROUTER_INTROSPECT_TIMEOUT_MS",
                    KVR_SETTING(introspection.timeout), 1, kDayMs,
                    "Time for each of an engine's answers, in ms."));
  t.push_back(Whole("engine-poll-ms", "KVROUTER_ENGINE_POLL_MS",
                    KVR_SETTING(introspection.load_period), 0, kDayMs,
                    "How often each engine is asked for its load (GET /metrics at the workers' "
                    "addresses; vLLM's and SGLang's names), in ms, slow ones up to 8 times less "
                    "often; an answer counts for four such periods. 0: not."));
}

void AddKubernetesOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words(
      "kubernetes-namespace", "KVROUTER_KUBERNETES_NAMESPACE",
      KVR_SETTING(kubernetes.pod_namespace), "a namespace, or empty", IsNamespaceOrEmpty,
      "Namespace of the pods; empty: POD_NAMESPACE, else the service account's, else default."));
  t.push_back(Words("kubernetes-pod-selector", "KVROUTER_KUBERNETES_POD_SELECTOR",
                    KVR_SETTING(kubernetes.pod_selector), "a label selector", Anything,
                    "Pods that may be workers."));
  t.push_back(Words("kubernetes-slice-selector", "KVROUTER_KUBERNETES_SLICE_SELECTOR",
                    KVR_SETTING(kubernetes.slice_selector), "a label selector, or empty", Anything,
                    "EndpointSlices that must name a pod; empty: none are asked for, pods alone "
                    "decide."));
  t.push_back(Words("kubernetes-api-server", "KVROUTER_KUBERNETES_API_SERVER",
                    KVR_SETTING(kubernetes.api_server),
                    "http://HOST[:PORT] or https://HOST[:PORT], or empty", IsOriginOrEmpty,
                    "API server; empty: that of the cluster the process runs in."));
  t.push_back(Words("kubernetes-token-file", "KVROUTER_KUBERNETES_TOKEN_FILE",
                    KVR_SETTING(kubernetes.token_file), "a path, or empty", Anything,
                    "Bearer token, read again for each request, sent over TLS only; empty: none."));
  t.push_back(Words("kubernetes-ca-file", "KVROUTER_KUBERNETES_CA_FILE",
                    KVR_SETTING(kubernetes.ca_file), "a path", Anything,
                    "Certificates that the API server's must be signed by."));
  t.push_back(Whole("kubernetes-request-timeout-ms", "KVROUTER_KUBERNETES_REQUEST_TIMEOUT_MS",
                    KVR_SETTING(kubernetes.request_timeout), 1, kDayMs,
                    "Time for a page of a list, and for a watch to begin, in ms."));
  t.push_back(Whole("kubernetes-watch-timeout-secs", "KVROUTER_KUBERNETES_WATCH_TIMEOUT_SECS",
                    KVR_SETTING(kubernetes.watch_timeout), 1, 86'400,
                    "The API server is asked to end a watch after this long, in s; it is then "
                    "resumed."));
  t.push_back(Whole("kubernetes-backoff-max-ms", "KVROUTER_KUBERNETES_BACKOFF_MAX_MS",
                    KVR_SETTING(kubernetes.backoff_max), 1, kDayMs,
                    "Longest wait before a failed request is repeated, in ms."));
}

}  // namespace kvrouter
