#ifndef KVROUTER_TESTS_UNIT_DISCOVERY_KUBERNETES_OBJECTS_H_
#define KVROUTER_TESTS_UNIT_DISCOVERY_KUBERNETES_OBJECTS_H_

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kvrouter {

// A ready pod with one container, as the API server would show it; the rest is up to the test.
inline nlohmann::json APod(const std::string& name, const std::string& ip = "10.0.0.1",
                           const std::string& uid = "u") {
  return {{"kind", "Pod"},
          {"metadata",
           {{"name", name},
            {"uid", uid},
            {"resourceVersion", "1"},
            {"labels", {{"app", "vllm"}}},
            {"annotations", {{"kvrouter.io/block-size", "16"}}}}},
          {"spec",
           {{"containers",
             {{{"name", "vllm"},
               {"ports",
                {{{"name", "http"}, {"containerPort", 8000}},
                 {{"name", "kv-events"}, {"containerPort", 5557}}}}}}}}},
          {"status",
           {{"phase", "Running"},
            {"podIP", ip},
            {"conditions", {{{"type", "Ready"}, {"status", "True"}}}},
            {"containerStatuses", {{{"name", "vllm"}, {"restartCount", 0}}}}}}};
}

inline nlohmann::json WithAnnotation(nlohmann::json pod, const std::string& name,
                                     const std::string& value) {
  pod["metadata"]["annotations"]["kvrouter.io/" + name] = value;
  return pod;
}

struct AnEndpoint {
  std::string pod;
  std::string uid = "u";
  bool ready = true;
  bool terminating = false;
};

inline nlohmann::json ASlice(const std::string& name, const std::vector<AnEndpoint>& endpoints) {
  nlohmann::json slice = {{"kind", "EndpointSlice"},
                          {"metadata", {{"name", name}, {"resourceVersion", "1"}}},
                          {"endpoints", nlohmann::json::array()}};
  for (const AnEndpoint& e : endpoints) {
    slice["endpoints"].push_back(
        {{"conditions", {{"ready", e.ready}, {"terminating", e.terminating}}},
         {"targetRef", {{"kind", "Pod"}, {"name", e.pod}, {"uid", e.uid}}}});
  }
  return slice;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISCOVERY_KUBERNETES_OBJECTS_H_
