#ifndef KVROUTER_CORE_RECORD_RECORD_FRAMES_H_
#define KVROUTER_CORE_RECORD_RECORD_FRAMES_H_

#include <cstddef>
#include <string>

namespace kvrouter {

// A record of the decision log begins with these, its length and checksum.
inline constexpr size_t kRecordFrameBytes = 8;

// Fills the frame in front of a payload that was written behind kRecordFrameBytes other bytes.
// REQUIRES: record.size() >= kRecordFrameBytes; a payload of at most kMaxRecordBytes.
void FillRecordFrame(std::string* record);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_RECORD_RECORD_FRAMES_H_
