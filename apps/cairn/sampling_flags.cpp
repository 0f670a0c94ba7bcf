#include "sampling_flags.h"

#include <fmt/format.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "help/value_checks.h"
#include "sampling/default_parameters.h"

namespace cairn {
namespace {

constexpr int64_t kAnySeed = -1;  // of a made model: another one for each request

// Takes the values that requests may have, too.
CLI::Validator range_of(const sampling::SamplingParameter& parameter) {
  const auto check = [&parameter](const std::string& text) {
    using CLI::detail::lexical_cast;
    double value = 0;
    return lexical_cast(text, value) && parameter.takes(value)
               ? std::string()
               : fmt::format("must be {}, not {}", parameter.range_text(), text);
  };
  const std::string range = parameter.range_text();
  constexpr std::string_view kFrom = "from ";
  return {check, fmt::format("{}N ({})", kShownMark, range.substr(range.starts_with(kFrom) ? kFrom.size() : 0))};
}

std::string help_of(const sampling::SamplingParameter& parameter, ShownDefaults defaults) {
  std::string help(parameter.text);
  if (parameter.off) help += fmt::format("; {}: off", parameter.off_text());
  if (defaults == ShownDefaults::kAll)
    help += fmt::format(" (default: {}{})", parameter.recommended.empty() ? "" : "the model file's, or ",
                        parameter.value_text(default_of(parameter)));
  return help;
}

void add_steps_flags(CLI::App& command, sampling::GivenParameters& given, const std::string& heading) {
  using Read = Result<std::vector<sampling::SamplerStep>> (*)(std::string_view);
  const auto add = [&](const std::string& names, Read read, const std::string& help) {
    const auto check = [read](const std::string& text) {
      const auto steps = read(text);
      return steps ? std::string() : steps.error().message;
    };
    return command
        .add_option_function<std::string>(
            names,
            [&given, read](const std::string& text) {
              if (auto steps = read(text)) given.steps = std::move(*steps);
            },
            help)
        ->check(CLI::Validator(check, ""))
        ->group(heading);
  };
  auto* names =
      add("--samplers", sampling::sampler_steps_of_names,
          "Sampling steps to use, in this order, separated by semicolons: \"top_k;temperature\" (default: all, "
          "in llama.cpp's order)");
  add("--sampler-seq,--sampling-seq", sampling::sampler_steps_of_letters,
      "The same as letters: \"kt\" (default: those of --samplers)")
      ->type_name("LETTERS")
      ->excludes(names);
  names->type_name("NAMES");
}

}  // namespace

void add_parameter_flags(CLI::App& command, sampling::GivenParameters& given, const std::string& heading,
                         ShownDefaults defaults) {
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const auto take = [&given, &parameter](const double& value) { given.set(parameter, value); };
    command.add_option_function<double>(std::string(parameter.flags), take, help_of(parameter, defaults))
        ->check(range_of(parameter))
        ->group(heading);
  }
  add_steps_flags(command, given, heading);
}

void SamplingFlags::add_to(CLI::App& command, ShownDefaults defaults) {
  const std::string heading(kSamplingHeading);
  add_parameter_flags(command, given, heading, defaults);
  command.add_option("--seed", seed, "The same seed gives the same answer (default: a random one each time)")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->group(heading);
}

sampling::SamplingParams SamplingFlags::finish(const gguf::Metadata& file, const api::GenerationDefaults& made) const {
  sampling::SamplingParams sampling;
  given.or_else(made.sampling)
      .or_else(api::recommended_by(file))
      .or_else(sampling::default_parameters())
      .apply(sampling);
  std::random_device random;
  const bool made_seed = made.seed && *made.seed != kAnySeed;
  sampling.seed = seed        ? *seed
                  : made_seed ? static_cast<uint64_t>(*made.seed)
                              : static_cast<uint64_t>(random()) << 32 | random();
  return sampling;
}

void SamplingFlags::add_to_request(nlohmann::ordered_json& request) const {
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const auto value = given.get(parameter.name);
    if (!value) continue;
    auto& field = request[std::string(parameter.name)];
    parameter.whole() ? field = static_cast<int64_t>(*value) : field = *value;
  }
  if (given.steps) {
    auto& names = request["samplers"] = nlohmann::ordered_json::array();
    for (const sampling::SamplerStep step : *given.steps) names.push_back(sampling::sampler_step_name(step));
  }
  if (seed) request["seed"] = static_cast<int64_t>(*seed);  // the server takes the same 64 bits with a sign
}

}  // namespace cairn
