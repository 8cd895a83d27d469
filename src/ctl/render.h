#ifndef KVROUTER_CTL_RENDER_H_
#define KVROUTER_CTL_RENDER_H_

#include <string>

#include "kvrouter/v1/router.pb.h"
#include "kvrouter/v1/workers.pb.h"

namespace kvrouter::ctl {

// Answers as text for people and as JSON for programs. Pure. JSON names are those of the proto
// files; 64-bit ids are plain integers, exact in the text.
std::string WorkersText(const v1::ListResponse& response);
std::string WorkersJson(const v1::ListResponse& response);
std::string RouteText(const v1::RouteResponse& response);
std::string RouteJson(const v1::RouteResponse& response);
std::string OverlapText(const v1::OverlapScoresResponse& response);
std::string OverlapJson(const v1::OverlapScoresResponse& response);
std::string ExplainJson(const v1::ExplainResponse& response);
std::string LoadsText(const v1::LoadsResponse& response);
std::string LoadsJson(const v1::LoadsResponse& response);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_RENDER_H_
