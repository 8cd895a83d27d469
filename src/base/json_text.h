#ifndef KVROUTER_BASE_JSON_TEXT_H_
#define KVROUTER_BASE_JSON_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvrouter {

// Pieces of JSON, for who writes too few of them to want a library. Pure functions.

// With its quotes; bytes that are no UTF-8 are replaced.
void AppendJsonString(std::string_view text, std::string* out);
// [1,2,3]
void AppendJsonNumbers(std::span<const uint32_t> numbers, std::string* out);

}  // namespace kvrouter

#endif  // KVROUTER_BASE_JSON_TEXT_H_
