#ifndef KVROUTER_BASE_UTF8_H_
#define KVROUTER_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kvrouter {

// Length of the UTF-8 sequence at `at`, 0 if there is none (overlong, surrogate, cut short, stray
// byte). REQUIRES: at < text.size().
size_t Utf8SequenceLength(std::string_view text, size_t at);

// `text` with every byte that belongs to no sequence replaced: texts from outside end up in
// documents that must be UTF-8, and one bad byte would cost the reader the whole document.
std::string ValidUtf8(std::string_view text, std::string_view replacement);

}  // namespace kvrouter

#endif  // KVROUTER_BASE_UTF8_H_
