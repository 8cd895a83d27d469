#ifndef KVROUTER_SIM_WIRE_FAULTY_ANSWER_H_
#define KVROUTER_SIM_WIRE_FAULTY_ANSWER_H_

#include <functional>
#include <memory>

#include "adapters/http/http_server.h"
#include "sim/wire/faults.h"

namespace kvrouter::sim {

// Where the answer to a request goes when `rule` has hit it: null if the request is not to be
// executed at all (it was refused, cut, or waits for its client to leave), else a responder that
// does the damage when it comes to it. `restart` restarts the engine.
std::shared_ptr<HttpResponder> FaultyAnswer(const FaultRule& rule,
                                            std::shared_ptr<HttpResponder> responder,
                                            std::function<void()> restart);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_FAULTY_ANSWER_H_
