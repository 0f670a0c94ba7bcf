/// Keys of the architectures and numbers of the presets. Private to synth.
#pragma once

#include <expected>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

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

struct Architecture {
  std::string_view name;
  std::span<const KeyDefault> keys;
  bool tied_output = false;
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

/// The error of a key that does not fit the others, or whose value is none.
std::unexpected<Error> misfit(std::string_view key, std::string_view what);

}  // namespace cairn::synth
