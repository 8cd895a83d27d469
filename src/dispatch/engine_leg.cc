#include "dispatch/engine_leg.h"

namespace kvrouter {

LegResult LegResultOf(EngineEnd end, int status) {
  switch (end) {
    case EngineEnd::kComplete:
      if (status >= 500) return LegResult::kServerError;
      return status >= 400 ? LegResult::kRefused : LegResult::kSucceeded;
    case EngineEnd::kBadAddress:
    case EngineEnd::kConnectFailed:
    case EngineEnd::kNotSent:
      return LegResult::kUnreachable;
    case EngineEnd::kHeadTimeout:
    case EngineEnd::kIdleTimeout:
      return LegResult::kTimedOut;
    case EngineEnd::kCut:
      return LegResult::kCut;
    case EngineEnd::kOverloaded:
    case EngineEnd::kShuttingDown:
      return LegResult::kNotSent;
  }
  return LegResult::kCut;
}

int StatusForClient(LegResult result) {
  switch (result) {
    case LegResult::kTimedOut:
      return 504;
    case LegResult::kNotSent:
      return 503;
    default:
      return 502;
  }
}

bool IsWorkersFault(LegResult result) {
  return result == LegResult::kServerError || result == LegResult::kUnreachable ||
         result == LegResult::kTimedOut || result == LegResult::kCut;
}

}  // namespace kvrouter
