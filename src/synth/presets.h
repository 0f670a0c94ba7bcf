/// Architectures and presets: keys, numbers, and what follows from these. Private to synth.
#pragma once

#include <expected>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"
#include "synth/shape.h"

namespace cairn::synth {

struct KeyDefault {
  std::string_view name;
  gguf::ValueType type;
  std::string_view value;  ///< in the form for Shape::set; empty: derived from others or left out
  bool is_array = false;
};

/// Names and shapes of tensors that the loader looks for in a file. It looks at the shape of few.
using KnownTensors = std::vector<std::pair<std::string, std::vector<int64_t>>>;

struct Architecture {
  std::string_view name;
  std::span<const KeyDefault> keys;
  bool tied_output = false;
  /// Tensors that each layer has which asks for them, with spaces between them: no key tells that they are there.
  std::string_view optional_tensors = {};
  void (*complete)(Shape& shape) = nullptr;                              ///< derives keys from others
  Result<void> (*check)(const Shape& shape) = nullptr;                   ///< what the keys' reader does not say as well
  void (*add_known)(const Shape& shape, KnownTensors& known) = nullptr;  ///< further tensors that no key tells
  bool rope_factors = false;
};

struct Preset {
  PresetInfo info;
  std::span<const std::pair<std::string_view, std::string_view>> keys;
  bool tied_output = false;
  std::string_view type = {};
  std::span<const std::pair<std::string_view, std::string_view>> type_rules = {};
  int64_t first_ratio = 0;  ///< deepseek4: compression ratio of the first two layers
};

std::span<const Architecture> architecture_table();
std::span<const Preset> preset_table();

void complete_mla(Shape& shape);
void complete_lfm2(Shape& shape);
void complete_nemotron_h(Shape& shape);
void complete_kimi_linear(Shape& shape);
void complete_gemma4(Shape& shape);
void complete_deepseek4(Shape& shape);
void complete_deepseek41(Shape& shape);
void add_known_gemma4(const Shape& shape, KnownTensors& known);
void add_known_deepseek41(const Shape& shape, KnownTensors& known);
Result<void> check_deepseek4(const Shape& shape);
Result<void> check_deepseek41(const Shape& shape);

/// The error of a key that does not fit the others, or whose value is none.
std::unexpected<Error> misfit(std::string_view key, std::string_view what);

}  // namespace cairn::synth
