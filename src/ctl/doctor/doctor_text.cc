#include "ctl/doctor/doctor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "ctl/doctor/diagnose.h"

namespace kvrouter::ctl {
namespace {

std::string Upper(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

size_t AskedWorkers(const Observations& seen) {
  return static_cast<size_t>(
      std::count_if(seen.workers.begin(), seen.workers.end(), [](const SeenWorker& worker) {
        return worker.engine && worker.engine->health_status.has_value();
      }));
}

// What was looked at: no finding means little if nothing could be seen.
std::string Scope(const Observations& seen) {
  return fmt::format("looked at {} figures of the daemon, {} workers, {} of them reached\n",
                     seen.metrics.size(), seen.workers.size(), AskedWorkers(seen));
}

}  // namespace

std::string FindingsText(const Observations& seen, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        fmt::format("{} {}: {}\n", Upper(SeverityName(finding.severity)), finding.id, finding.what);
    for (const Evidence& evidence : finding.evidence) {
      text += fmt::format("    {} = {}", evidence.figure, evidence.value);
      text += evidence.limit == "-" ? "\n" : fmt::format("  (should be: {})\n", evidence.limit);
    }
    text += fmt::format("    do: {}\n\n", finding.help);
  }
  if (findings.empty()) text += "nothing wrong\n";
  return text + Scope(seen);
}

std::string FindingsJson(const Observations& seen, const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json evidence = Json::array();
    for (const Evidence& one : finding.evidence) {
      evidence.push_back({{"figure", one.figure},
                          {"value", one.value},
                          {"limit", one.limit == "-" ? Json(nullptr) : Json(one.limit)}});
    }
    list.push_back({{"severity", SeverityName(finding.severity)},
                    {"id", finding.id},
                    {"what", finding.what},
                    {"evidence", std::move(evidence)},
                    {"help", finding.help}});
  }
  const Json report = {{"exit_code", ExitCode(findings)},
                       {"findings", std::move(list)},
                       {"seen",
                        {{"figures", seen.metrics.size()},
                         {"workers", seen.workers.size()},
                         {"workers_reached", AskedWorkers(seen)}}}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvrouter::ctl
