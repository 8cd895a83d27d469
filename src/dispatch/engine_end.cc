#include "dispatch/engine_link.h"

namespace kvrouter {

std::string_view EngineEndName(EngineEnd end) {
  switch (end) {
    case EngineEnd::kComplete:
      return "complete";
    case EngineEnd::kBadAddress:
      return "bad_address";
    case EngineEnd::kConnectFailed:
      return "connect_failed";
    case EngineEnd::kNotSent:
      return "not_sent";
    case EngineEnd::kHeadTimeout:
      return "head_timeout";
    case EngineEnd::kIdleTimeout:
      return "idle_timeout";
    case EngineEnd::kCut:
      return "cut";
    case EngineEnd::kOverloaded:
      return "overloaded";
    case EngineEnd::kShuttingDown:
      return "shutting_down";
  }
  return "unknown";
}

}  // namespace kvrouter
