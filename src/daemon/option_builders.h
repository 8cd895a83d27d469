#ifndef KVROUTER_DAEMON_OPTION_BUILDERS_H_
#define KVROUTER_DAEMON_OPTION_BUILDERS_H_

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ascii.h"
#include "daemon/daemon_config.h"
#include "daemon/option_table.h"

namespace kvrouter {

// Rows of the option table by the kind of their value: how it is read, what is said of its range,
// how it is shown. For the files of option_areas.h. `field` maps a DaemonConfig to the setting's
// place in it, as KVR_SETTING does.
#define KVR_SETTING(path) \
  [](DaemonConfig & c) -> auto& { return c.path; }

inline absl::Status Want(std::string_view range) {
  return absl::InvalidArgumentError(fmt::format("want {}", range));
}

template <typename Number>
bool ParseNumber(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

inline constexpr double kUnbounded = std::numeric_limits<double>::max();

inline std::string RealRange(double max) {
  return max == kUnbounded ? "a finite number >= 0" : fmt::format("a number in 0..{}", max);
}

inline bool ParseReal(std::string_view text, double max, double* out) {
  return ParseNumber(text, out) && std::isfinite(*out) && *out >= 0 && *out <= max;
}

// A whole number as a field holds it: plain, or as a duration in the unit of its type.
template <typename Value>
Value FromWhole(uint64_t number) {
  if constexpr (std::is_integral_v<Value>) {
    return static_cast<Value>(number);
  } else {
    return Value(static_cast<typename Value::rep>(number));
  }
}

template <typename Value>
std::string WholeText(const Value& value) {
  if constexpr (std::is_integral_v<Value>) {
    return fmt::format("{}", value);
  } else {
    return fmt::format("{}", value.count());
  }
}

// ---- Rows ----

template <typename Field>
Option Real(std::string name, std::string environment, Field field, double max, std::string help) {
  std::string range = RealRange(max);
  const auto set = [field, max, range](std::string_view text,
                                       DaemonConfig* config) -> absl::Status {
    double value = 0;
    if (!ParseReal(text, max, &value)) return Want(range);
    field(*config) = value;
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return fmt::format("{}", field(copy));
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

// Whole numbers and durations (in the unit of the field's type, which the name ends in).
template <typename Field>
Option Whole(std::string name, std::string environment, Field field, uint64_t min, uint64_t max,
             std::string help) {
  using Value = std::remove_reference_t<decltype(field(std::declval<DaemonConfig&>()))>;
  std::string range = fmt::format("a whole number in {}..{}", min, max);
  const auto set = [field, min, max, range](std::string_view text,
                                            DaemonConfig* config) -> absl::Status {
    uint64_t value = 0;
    if (!ParseNumber(text, &value) || value < min || value > max) return Want(range);
    field(*config) = FromWhole<Value>(value);
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return WholeText(field(copy));
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

// Seconds with a fraction, into nanoseconds; the field may be absent, as "none".
template <typename Field>
Option Seconds(std::string name, std::string environment, Field field, double max,
               std::string help) {
  using Value = std::remove_reference_t<decltype(field(std::declval<DaemonConfig&>()))>;
  constexpr bool kMayBeAbsent = !std::is_same_v<Value, std::chrono::nanoseconds>;
  std::string range = (kMayBeAbsent ? "none, or " : "") + RealRange(max);
  const auto set = [field, max, range](std::string_view text,
                                       DaemonConfig* config) -> absl::Status {
    if constexpr (kMayBeAbsent) {
      if (AsciiLower(text) == "none") {
        field(*config) = std::nullopt;
        return absl::OkStatus();
      }
    }
    double value = 0;
    if (!ParseReal(text, max, &value)) return Want(range);
    field(*config) = std::chrono::nanoseconds(std::llround(value * 1e9));
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    const auto text = [](std::chrono::nanoseconds value) {
      return fmt::format("{}", std::chrono::duration<double>(value).count());
    };
    if constexpr (kMayBeAbsent) {
      return field(copy) ? text(*field(copy)) : std::string("none");
    } else {
      return text(field(copy));
    }
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

template <typename Field>
Option Switch(std::string name, std::string environment, Field field, std::string help) {
  const auto set = [field](std::string_view text, DaemonConfig* config) -> absl::Status {
    const std::string value = AsciiLower(text);
    const bool yes = value == "true" || value == "1" || value == "yes" || value == "on";
    const bool no = value == "false" || value == "0" || value == "no" || value == "off";
    if (!yes && !no) return Want("true or false");
    field(*config) = yes;
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return std::string(field(copy) ? "true" : "false");
  };
  return {
      std::move(name), std::move(environment), std::move(help), "true or false", true, set, get};
}

// Free text; `check` may refuse it.
template <typename Field, typename Check>
Option Words(std::string name, std::string environment, Field field, std::string range, Check check,
             std::string help) {
  const auto set = [field, range, check](std::string_view text,
                                         DaemonConfig* config) -> absl::Status {
    if (!check(text)) return Want(range);
    field(*config) = std::string(text);
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return field(copy);
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

// Values separated by commas; an empty one between them is left out.
template <typename Field>
Option WordList(std::string name, std::string environment, Field field, std::string range,
                std::string help) {
  const auto set = [field](std::string_view text, DaemonConfig* config) -> absl::Status {
    std::vector<std::string> words;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      std::string_view word = text.substr(0, comma);
      text.remove_prefix(std::min(comma + 1, text.size()));
      while (word.starts_with(' ')) word.remove_prefix(1);
      while (word.ends_with(' ')) word.remove_suffix(1);
      if (!word.empty()) words.emplace_back(word);
    }
    field(*config) = std::move(words);
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return fmt::format("{}", fmt::join(field(copy), ","));
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

inline bool Anything(std::string_view) { return true; }

template <typename Field>
Option Secret(std::string name, std::string environment, Field field, std::string help) {
  Option option = Words(std::move(name), std::move(environment), field, "text, or empty", Anything,
                        std::move(help));
  option.is_secret = true;
  return option;
}

// A number that may be left out, by "none".
template <typename Field>
Option OptionalReal(std::string name, std::string environment, Field field, double max,
                    std::string help) {
  std::string range = "none, or " + RealRange(max);
  const auto set = [field, max, range](std::string_view text,
                                       DaemonConfig* config) -> absl::Status {
    if (AsciiLower(text) == "none") {
      field(*config) = std::nullopt;
      return absl::OkStatus();
    }
    double value = 0;
    if (!ParseReal(text, max, &value)) return Want(range);
    field(*config) = value;
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    return field(copy) ? fmt::format("{}", *field(copy)) : std::string("none");
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

// A number that may be left out, by "none": whole ones, and durations in the unit of their type.
template <typename Field>
Option OptionalWhole(std::string name, std::string environment, Field field, uint64_t min,
                     uint64_t max, std::string help) {
  using Value =
      typename std::remove_reference_t<decltype(field(std::declval<DaemonConfig&>()))>::value_type;
  const bool is_bounded = min > 0 || max < std::numeric_limits<uint64_t>::max();
  std::string range = is_bounded ? fmt::format("none, or a whole number in {}..{}", min, max)
                                 : std::string("none, or a whole number");
  const auto set = [field, min, max, range](std::string_view text,
                                            DaemonConfig* config) -> absl::Status {
    if (AsciiLower(text) == "none") {
      field(*config) = std::nullopt;
      return absl::OkStatus();
    }
    uint64_t value = 0;
    if (!ParseNumber(text, &value) || value < min || value > max) return Want(range);
    field(*config) = FromWhole<Value>(value);
    return absl::OkStatus();
  };
  const auto get = [field](const DaemonConfig& config) {
    DaemonConfig copy = config;
    const auto& value = field(copy);
    return value ? WholeText(*value) : std::string("none");
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

// One of a few words; `aliases` mean one of them, too. Any case.
template <typename Value>
struct Choice {
  const char* name;
  Value value;
};
template <typename Value, typename Field>
Option OneOf(std::string name, std::string environment, Field field,
             std::vector<Choice<Value>> choices, std::vector<Choice<Value>> aliases,
             std::string help) {
  std::string range;
  for (size_t i = 0; i < choices.size(); ++i) {
    range += i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ";
    range += choices[i].name;
  }
  const auto set = [field, choices, aliases, range](std::string_view text,
                                                    DaemonConfig* config) -> absl::Status {
    const std::string wanted = AsciiLower(text);
    for (const auto& list : {choices, aliases}) {
      for (const Choice<Value>& choice : list) {
        if (wanted != choice.name) continue;
        field(*config) = choice.value;
        return absl::OkStatus();
      }
    }
    return Want(range);
  };
  const auto get = [field, choices](const DaemonConfig& config) {
    DaemonConfig copy = config;
    for (const Choice<Value>& choice : choices)
      if (choice.value == field(copy)) return std::string(choice.name);
    return std::string();
  };
  return {
      std::move(name), std::move(environment), std::move(help), std::move(range), false, set, get};
}

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_BUILDERS_H_
