/// What a made model is like: the metadata keys of its architecture, with numbers that fit each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::synth {

/// Far above every published model: against slips of the finger.
inline constexpr int64_t kLayersMax = 1'024;
inline constexpr int64_t kWidthMax = 1 << 20;
inline constexpr int64_t kExpertsMax = 65'536;

/// deepseek4: layers that compress this many positions into a row do so in overlapping windows, and choose rows.
inline constexpr int64_t kOverlapRatio = 4;

/// A key without the architecture's name in front: "attention.head_count".
struct Key {
  std::string name;
  gguf::ValueType type = gguf::ValueType::kU32;  ///< of each element, if it is an array
  bool is_array = false;
  std::vector<double> values;  ///< empty: it follows from others (complete()) or is left out
  bool is_chosen = false;      ///< by the caller
};

/// Tensors whose name the regular expression matches somewhere get the type.
struct TypeRule {
  std::string pattern;
  std::string type;
};

struct PresetInfo {
  std::string_view name;
  std::string_view architecture;
  std::string_view summary;  ///< one line for people
};

/// Architectures that can be made, and real shapes by name.
std::span<const std::string_view> architectures();
std::span<const PresetInfo> presets();

class Shape {
 public:
  /// A small model of an architecture ("moe" is qwen3moe). kInvalidArgument with the list for any other name.
  static Result<Shape> of_architecture(std::string_view name);
  static Result<Shape> of_preset(std::string_view name);

  /// `value` as text: "64", "0.5", "true", "0,0,4,128". kInvalidArgument: no such key (all are listed), not a value.
  Result<void> set(std::string_view key, std::string_view value);
  /// Fills in what follows from other keys and checks that they fit each other. Errors: kInvalidArgument, the key
  /// named.
  Result<void> complete();

  const std::string& architecture() const { return architecture_; }
  const std::string& name() const { return name_; }
  std::span<const Key> keys() const { return keys_; }
  /// What a preset gives its tensors; empty: nothing but F16.
  const std::string& type() const { return type_; }
  std::span<const TypeRule> type_rules() const { return type_rules_; }

  /// After complete(); 0 for a key that is left out.
  int64_t integer(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;

  bool tied_output = false;  ///< the token embedding is the output matrix
  /// deepseek4: attn_output_a as one matrix [inputs of a group, groups * rank], as the first published files have it,
  /// and not as one matrix for each group.
  bool flat_output_a = false;

 private:
  Shape() = default;
  static Shape make(std::string_view architecture);
  Key* find(std::string_view name);
  const Key* find(std::string_view name) const;
  void derive(std::string_view name, std::vector<double> values);
  void complete_deepseek4();
  Result<void> check_numbers() const;
  Result<void> check_heads() const;
  Result<void> check_layers() const;

  std::string architecture_;
  std::string name_;
  std::string type_;
  std::vector<TypeRule> type_rules_;
  std::vector<Key> keys_;
  int64_t first_ratio_ = 0;  // deepseek4: of the first two layers
};

}  // namespace cairn::synth
