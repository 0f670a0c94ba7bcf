/// The sampling parameters that are numbers, a row each. Requests, flags, config files, what a model's file recommends,
/// llama.cpp's settings, the table of docs/sampling.md and the page's list are read, checked and written by the rows;
/// docs/adding/parameter.md adds one. What is no number (samplers, dry_sequence_breakers, logit_bias, seed) has code of
/// its own.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "sampling/sampling_params.h"

namespace cairn::sampling {

struct SamplingParameter {
  using Member =
      std::variant<float SamplingParams::*, int32_t SamplingParams::*, float DryParams::*, int32_t DryParams::*>;

  /// Bounds of parameters that have none.
  static constexpr double kNoLow = std::numeric_limits<int32_t>::min();
  static constexpr double kNoHigh = std::numeric_limits<int32_t>::max();

  /// Values under the range that are taken all the same.
  struct UnderLow {
    double from = 0;      ///< and up to the range
    bool is_low = false;  ///< they stand for the least value of the range; else for none at all, as if left out
  };

  std::string_view name;           ///< the field of a request, and what errors call it
  std::string_view alias{};        ///< another name of the field
  std::string_view llama_name{};   ///< in llama.cpp's settings and on the page; empty: `name`
  std::string_view recommended{};  ///< the key behind "general.sampling." by which a file recommends it; empty: none
  std::string_view flags;          ///< as CLI11 has them, llama.cpp's name first
  Member member;
  double low = 0;
  double high = 1;
  bool above_low = false;          ///< `low` itself is out of the range
  bool minus_one_is_most = false;  ///< `low` is -1, which stands for `high`
  std::string_view low_means{};    ///< what `low` asks for, where the text of the range says it
  std::optional<UnderLow> under_low{};
  std::optional<double> off{};  ///< with this value it has no effect
  std::string_view label{};     ///< on the page; empty: the page does not offer it
  std::string_view text;        ///< what it does: a sentence without its full stop

  /// Whether it is an integer.
  bool whole() const;
  double get(const SamplingParams& sampling) const;
  void set(SamplingParams& sampling, double value) const;
  std::string_view settings_name() const { return llama_name.empty() ? name : llama_name; }
  /// The value as text; of a float as short as a float's text is.
  std::string value_text(double value) const;

  /// The range in words: "from 0 to 1000".
  std::string range_text() const;
  /// What switches it off: "0", or nothing.
  std::string off_text() const;
  /// Whether the sampler takes the value. NaN is in no range.
  bool contains(double value) const;
  /// The least value that readers take.
  double taken_low() const { return under_low ? under_low->from : low; }
  /// Whether readers take the value.
  bool takes(double value) const;
  /// What a value that readers take is for the sampler; nullopt: as if it had been left out.
  std::optional<double> meaning(double value) const;
  /// kInvalidArgument naming the parameter and its range, if the sampler does not take its value.
  Result<void> check(const SamplingParams& sampling) const;
};

/// All of them, in the order of llama.cpp's settings.
std::span<const SamplingParameter> sampling_parameters();

/// Parameters that somebody gave: by flags, in a config file, or a model's file as its recommendation.
class GivenParameters {
 public:
  std::optional<double> get(std::string_view name) const;
  /// `value` is one that readers take.
  void set(const SamplingParameter& parameter, double value);
  void unset(std::string_view name) { values_.erase(name); }
  /// The order of the sampler's steps.
  std::optional<std::vector<SamplerStep>> steps{};

  /// These, and for what is not given here those of `others`.
  GivenParameters or_else(const GivenParameters& others) const;
  void apply(SamplingParams& sampling) const;

 private:
  std::map<std::string_view, double> values_;  // by the names of rows
};

}  // namespace cairn::sampling
