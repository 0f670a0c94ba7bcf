#include "talk/talk_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "sampling/parameters.h"

namespace cairn {
namespace {

using sampling::SamplingParameter;

constexpr std::string_view kSeed = "seed";
constexpr std::string_view kMaxTokens = "max_tokens";
constexpr std::string_view kReasoningBudget = "reasoning_budget";
constexpr std::string_view kDefault = "default";

/// "--repeat-penalty" -> "repeat_penalty".
std::string plain_name(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string name(flag);
  std::ranges::replace(name, '-', '_');
  return name;
}

/// All names of the parameter.
std::vector<std::string> names_of_parameter(const SamplingParameter& parameter) {
  std::vector<std::string> names;
  for (const std::string_view name : {parameter.name, parameter.alias, parameter.llama_name}) {
    if (!name.empty()) names.emplace_back(name);
  }
  std::string_view flags = parameter.flags;
  while (!flags.empty()) {
    const size_t end = std::min(flags.find(','), flags.size());
    names.push_back(plain_name(flags.substr(0, end)));
    flags.remove_prefix(std::min(end + 1, flags.size()));
  }
  return names;
}

const SamplingParameter* find_parameter(const std::string& name) {
  for (const SamplingParameter& parameter : sampling::sampling_parameters()) {
    if (std::ranges::count(names_of_parameter(parameter), name) > 0) return &parameter;
  }
  return nullptr;
}

/// "; did you mean top_k?", or where the names are shown.
std::string hint(std::string_view name) {
  std::vector<std::string> names = setting_names();
  for (const SamplingParameter& parameter : sampling::sampling_parameters())
    std::ranges::move(names_of_parameter(parameter), std::back_inserter(names));
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string meant = did_you_mean(name, known);
  return meant.empty() ? "; /set and the Tab key show them" : meant;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<std::string> set_parameter(ChatFlags& flags, const SamplingParameter& parameter, std::string_view value) {
  if (value == kDefault) {
    flags.sampling.given.unset(parameter.name);
    return fmt::format("{} is the default again", parameter.name);
  }
  const auto number = number_of<double>(value);
  if (!number || !parameter.takes(*number) || (parameter.whole() && *number != std::trunc(*number)))
    return fail(Code::kInvalidArgument, "{} must be {} {}, not {}", parameter.name,
                parameter.whole() ? "a whole number" : "a number", parameter.range_text(), printable(value));
  flags.sampling.given.set(parameter, *number);
  return fmt::format("{} is {}", parameter.name, parameter.value_text(*number));
}

Result<std::string> set_limit(int32_t& limit, std::string_view name, std::string_view value) {
  const auto number = value == kDefault ? std::optional(-1) : number_of<int32_t>(value);
  if (!number || *number < -1)
    return fail(Code::kInvalidArgument, "{} takes -1 (no limit) or more, not {}", name, printable(value));
  limit = *number;
  return limit < 0 ? fmt::format("{} has no limit", name) : fmt::format("{} is {}", name, limit);
}

}  // namespace

std::vector<std::string> setting_names() {
  std::vector<std::string> names{std::string(kMaxTokens), std::string(kReasoningBudget), std::string(kSeed)};
  for (const SamplingParameter& parameter : sampling::sampling_parameters()) names.emplace_back(parameter.name);
  return names;
}

Result<std::string> change_setting(ChatFlags& flags, std::string_view name, std::string_view value) {
  const std::string plain = plain_name(name);
  if (plain == kMaxTokens) return set_limit(flags.max_tokens, kMaxTokens, value);
  if (plain == kReasoningBudget) return set_limit(flags.reasoning_budget, kReasoningBudget, value);
  if (plain == kSeed) {
    const auto number = number_of<uint64_t>(value);
    if (!number && value != kDefault)
      return fail(Code::kInvalidArgument, "seed takes a whole number, or default for a random one each time");
    flags.sampling.seed = number;
    return number ? fmt::format("seed is {}", *number) : std::string("seed is random each time");
  }
  if (const SamplingParameter* const parameter = find_parameter(plain)) return set_parameter(flags, *parameter, value);
  return fail(Code::kNotFound, "there is no setting {}{}", printable(name), hint(plain));
}

std::string settings_text(const ChatFlags& flags) {
  std::string text;
  for (const SamplingParameter& parameter : sampling::sampling_parameters()) {
    if (const auto value = flags.sampling.given.get(parameter.name))
      text += fmt::format("{} {}\n", parameter.name, parameter.value_text(*value));
  }
  if (flags.sampling.seed) text += fmt::format("{} {}\n", kSeed, *flags.sampling.seed);
  if (flags.max_tokens >= 0) text += fmt::format("{} {}\n", kMaxTokens, flags.max_tokens);
  if (flags.reasoning_budget >= 0) text += fmt::format("{} {}\n", kReasoningBudget, flags.reasoning_budget);
  return text;
}

}  // namespace cairn
