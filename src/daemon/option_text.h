#ifndef KVROUTER_DAEMON_OPTION_TEXT_H_
#define KVROUTER_DAEMON_OPTION_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace kvrouter {

// Texts made from the option table.

// The known name nearest to a misspelt one, empty if none is near. Letters' distance, at most a
// third of the name.
std::string NearestName(std::string_view name, const std::vector<std::string>& known);
// " (did you mean '<prefix><name>'?)", or nothing.
std::string Suggestion(std::string_view prefix, std::string_view name,
                       const std::vector<std::string>& known);

// Table of all settings for docs/operations.md.
std::string OptionsMarkdown();
// Text of --help.
std::string OptionsHelp();

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_TEXT_H_
