#ifndef KVROUTER_BASE_CLI_CHOICE_H_
#define KVROUTER_BASE_CLI_CHOICE_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <utility>

namespace kvrouter {

// A flag whose value is one of some words. CLI::CheckedTransformer, made for this, also shows and
// takes the values that the words stand for: control characters, if the enum is one of bytes.
template <typename Value>
CLI::Option* AddChoice(CLI::App* app, const std::string& flag, Value* value,
                       std::map<std::string, Value> words, const std::string& help) {
  CLI::IsMember known(words);
  return app
      ->add_option_function<std::string>(
          flag,
          [value, words = std::move(words)](const std::string& word) { *value = words.at(word); },
          help)
      ->check(std::move(known));
}

}  // namespace kvrouter

#endif  // KVROUTER_BASE_CLI_CHOICE_H_
