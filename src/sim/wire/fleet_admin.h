#ifndef KVROUTER_SIM_WIRE_FLEET_ADMIN_H_
#define KVROUTER_SIM_WIRE_FLEET_ADMIN_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adapters/http/http_server.h"
#include "sim/wire/faults.h"

namespace kvrouter::sim {

// Where a test breaks engines, on a port of its own, since a broken engine cannot be asked:
//   POST /engines/{i}/faults    adds a rule (faults.h); {"kind": "refuse"} closes the engine's port
//   DELETE /engines/{i}/faults  clears them and opens the port again
//   GET /engines/{i}/faults     {"taken": n}
//   POST /engines/{i}/restart   now
//
// Thread safety: Start and Stop from the owner's thread.
class FleetAdmin {
 public:
  struct Parts {
    std::vector<Faults*> engines;
    std::function<void(size_t engine)> restart;
    // Called by one thread at a time.
    std::function<absl::Status(size_t engine, bool listen)> set_listening;
  };

  FleetAdmin(std::string listen, Parts parts);

  absl::Status Start();
  std::string Address() const { return server_.Address(); }
  void Stop() { server_.Stop(std::chrono::milliseconds(0)); }

 private:
  HttpResponse AddFault(size_t engine, const std::string& body);
  HttpResponse SetListening(size_t engine, bool listen);

  const Parts parts_;
  HttpServer server_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_FLEET_ADMIN_H_
