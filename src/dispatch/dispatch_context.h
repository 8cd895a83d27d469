#ifndef KVROUTER_DISPATCH_DISPATCH_CONTEXT_H_
#define KVROUTER_DISPATCH_DISPATCH_CONTEXT_H_

#include <memory>

#include "base/clock.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/dispatch_settings.h"
#include "dispatch/engine_link.h"
#include "dispatch/live_calls.h"
#include "dispatch/model_directory.h"
#include "dispatch/render_probe.h"
#include "dispatch/tokenizer.h"
#include "service/routing_service.h"

namespace kvrouter {

// What all requests of a dispatcher share. Immutable but for what locks itself.
struct DispatchContext {
  DispatchContext(const DispatchConfig& c, const WorkerRegistry* workers)
      : settings(std::make_shared<DispatchSettings>(c)),
        directory(workers),
        live(c.max_live_requests) {}

  const std::shared_ptr<DispatchSettings> settings;
  RoutingService* routing = nullptr;
  EngineLink* link = nullptr;
  const Clock* clock = nullptr;
  DispatchObserver* observer = nullptr;  // not null
  const ModelDirectory directory;
  std::shared_ptr<Tokenizer> tokenizer;
  std::shared_ptr<RenderProbe> probe;
  LiveCalls live;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCH_CONTEXT_H_
