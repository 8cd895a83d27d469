#ifndef KVROUTER_DAEMON_OPTION_AREAS_H_
#define KVROUTER_DAEMON_OPTION_AREAS_H_

#include <vector>

#include "daemon/option_table.h"

namespace kvrouter {

// The rows of the option table by what they are about. option_table.cc puts them together in the
// order of --help.

// door_options.cc: addresses and life of the process, limits of its servers, labels of its metrics.
void AddDoorOptions(std::vector<Option>* table);
void AddGrpcOptions(std::vector<Option>* table);
void AddHttpOptions(std::vector<Option>* table);
void AddLabelOptions(std::vector<Option>* table);

// routing_options.cc: the choice, where its overlap comes from, how much is kept for it.
void AddRoutingOptions(std::vector<Option>* table);
void AddOverlapSourceOptions(std::vector<Option>* table);
void AddLimitOptions(std::vector<Option>* table);

// admission_options.cc: who may be chosen, and who waits.
void AddAdmissionOptions(std::vector<Option>* table);

// plan_options.cc: sessions, prefill elsewhere or not, blocks pulled from other workers.
void AddSessionOptions(std::vector<Option>* table);
void AddGateOptions(std::vector<Option>* table);
void AddMigrationOptions(std::vector<Option>* table);

// record_options.cc: a second policy beside the first, decisions on disk, settings read again.
void AddRecordOptions(std::vector<Option>* table);

// dispatch_options.cc: door, requests, tokenising, engines.
void AddDispatchOptions(std::vector<Option>* table);

// discovery_options.cc: who the workers are, what their engines say of themselves.
void AddDiscoveryOptions(std::vector<Option>* table);
void AddIntrospectionOptions(std::vector<Option>* table);
void AddKubernetesOptions(std::vector<Option>* table);

// feed_options.cc: event feeds and their replays, what outlives the process.
void AddFeedOptions(std::vector<Option>* table);
void AddWarmRestartOptions(std::vector<Option>* table);

// event_plane_options.cc: Dynamo's event plane, its NATS servers.
void AddEventPlaneOptions(std::vector<Option>* table);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_AREAS_H_
