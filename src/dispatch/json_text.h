#ifndef KVROUTER_DISPATCH_JSON_TEXT_H_
#define KVROUTER_DISPATCH_JSON_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvrouter {

// Writing the few pieces of JSON that the dispatcher adds to bodies of others. Pure functions.

// With its quotes; bytes that are no UTF-8 are replaced.
void AppendJsonString(std::string_view text, std::string* out);
// [1,2,3]
void AppendJsonNumbers(std::span<const uint32_t> numbers, std::string* out);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_JSON_TEXT_H_
