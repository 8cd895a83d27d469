#ifndef KVROUTER_CORE_RECORD_RECORD_FRAMES_H_
#define KVROUTER_CORE_RECORD_RECORD_FRAMES_H_

#include <string>
#include <string_view>

namespace kvrouter {

// The payload of a record of the decision log with its length and checksum before it.
// REQUIRES: payload.size() <= kMaxRecordBytes.
std::string FramedRecord(std::string_view payload);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_RECORD_RECORD_FRAMES_H_
