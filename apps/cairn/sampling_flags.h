/// Flags of the sampling parameters: those of the rows of sampling/parameters.h, and the order of the steps.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/params/generation_defaults.h"
#include "gguf/reader.h"
#include "sampling/parameters.h"

namespace cairn {

/// Group of the options of SamplingFlags.
inline constexpr std::string_view kSamplingHeading = "Sampling";

/// Whether the help shows the defaults: not where a server has its own.
enum class ShownDefaults : uint8_t { kNone, kAll };

/// Adds them under a heading of the help. `given` outlives the command's parsing.
void add_parameter_flags(CLI::App& command, sampling::GivenParameters& given, const std::string& heading,
                         ShownDefaults defaults);

/// The same and a seed, for commands that ask for one answer.
struct SamplingFlags {
  sampling::GivenParameters given;
  std::optional<uint64_t> seed;

  void add_to(CLI::App& command, ShownDefaults defaults);
  /// What a model that is loaded here is asked for: where nothing was given it is as was `made` of it, then as its file
  /// recommends, and then the default; the seed is a random one.
  sampling::SamplingParams finish(const gguf::Metadata& file, const api::GenerationDefaults& made) const;
  /// Adds to the request of a server what was given, and nothing else: the rest is the server's.
  void add_to_request(nlohmann::ordered_json& request) const;
};

}  // namespace cairn
