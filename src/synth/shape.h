/// The shape of a synthetic model: the metadata keys of its architecture, with consistent numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::synth {

/// Maximum number of layers, far above every published model, to catch typing errors.
inline constexpr int64_t kLayersMax = 1'024;
/// Maximum of other numbers, but for those of 64 bits. The reader of a model's keys has bounds of its own.
inline constexpr int64_t kNumberMax = 1 << 24;
/// Numbers of a row of I8 with one scale.
inline constexpr int64_t kScaleBlock = 32;
inline constexpr int64_t kMultiplierMax = (int64_t{1} << 47) - 1;

/// deepseek4: layers that compress this many positions into a row do so in overlapping windows, and select rows.
inline constexpr int64_t kOverlapRatio = 4;

/// A key without the architecture's name in front: "attention.head_count".
struct Key {
  std::string name;
  gguf::ValueType type = gguf::ValueType::kU32;  ///< type of each element, if it is an array
  bool is_array = false;
  std::vector<double> values;  ///< empty: derived from others (complete()) or left out
  bool is_chosen = false;      ///< whether the caller set it
};

/// Gives the type to tensors whose name matches the regular expression somewhere.
struct TypeRule {
  std::string pattern;
  std::string type;
  bool is_preset = false;  ///< may match nothing: the layers that it is about may be left out
};

struct PresetInfo {
  std::string_view name;
  std::string_view architecture;
  std::string_view summary;  ///< a one-line description
};

/// The available architectures, and real shapes by name.
std::span<const std::string_view> architectures();
std::span<const PresetInfo> presets();

struct Architecture;

/// What a file says of a shape: names of keys, and values whose arrays point to `numbers`.
struct ShapeMetadata {
  std::deque<std::string> numbers;
  std::vector<std::pair<std::string, gguf::Value>> values;
};

class Shape {
 public:
  /// A small model of an architecture ("moe" is qwen3moe). Error: kInvalidArgument, which lists the architectures, for
  /// any other name.
  static Result<Shape> of_architecture(std::string_view name);
  static Result<Shape> of_preset(std::string_view name);

  /// Sets a key from text: "64", "0.5", "true", "0,0,4,128". Errors: kInvalidArgument (no such key, with the list of
  /// keys; not a value).
  Result<void> set(std::string_view key, std::string_view value);
  /// Fills in keys that follow from others and checks what their reader does not say as well. Errors:
  /// kInvalidArgument, naming the key.
  Result<void> complete();

  std::string architecture() const;
  const Architecture& row() const { return *row_; }
  const std::string& name() const { return name_; }
  std::span<const Key> keys() const { return keys_; }
  ShapeMetadata metadata() const;
  /// The preset's type of tensors; empty: only F16.
  const std::string& type() const { return type_; }
  std::span<const TypeRule> type_rules() const { return type_rules_; }

  /// The value of a key after complete(); 0 for a key that is left out.
  int64_t integer(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;

  bool tied_output = false;  ///< whether the token embedding is also the output matrix
  /// deepseek4, deepseek41: whether attn_output_a is a single matrix [inputs of a group, groups * rank], as in the
  /// first published files, rather than one for each group.
  bool flat_output_a = false;

  // -- For what completes a shape.
  Key* find(std::string_view name);
  const Key* find(std::string_view name) const;
  /// The number of layers, bounded: it may not be checked yet.
  int64_t layers() const;
  /// deepseek4: the compression ratio of the first two layers.
  int64_t first_ratio() const { return first_ratio_; }
  /// Gives a key its values if it has none.
  void derive(std::string_view name, std::vector<double> values);
  /// The same with a value for each layer. If a shape has fewer layers than its preset, the preset's values of the
  /// first layers are left.
  void derive_layers(std::string_view name, const std::function<double(int64_t layer)>& value);

 private:
  Shape() = default;
  static Shape make(const Architecture& row);
  Result<void> check() const;

  const Architecture* row_ = nullptr;
  std::string name_;
  std::string type_;
  std::vector<TypeRule> type_rules_;
  std::vector<Key> keys_;
  int64_t first_ratio_ = 0;
};

}  // namespace cairn::synth
