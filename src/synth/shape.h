/// The shape of a synthetic model: the metadata keys of its architecture, with consistent numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::synth {

/// Maximum number of layers, far above every published model, to catch typing errors.
inline constexpr int64_t kLayersMax = 1'024;
inline constexpr int64_t kWidthMax = 1 << 20;
inline constexpr int64_t kExpertsMax = 65'536;
inline constexpr int64_t kEngramOrderMax = 8;
inline constexpr int64_t kEngramHeadsMax = 64;
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

class Shape {
 public:
  /// A small model of an architecture ("moe" is qwen3moe). Error: kInvalidArgument, which lists the architectures, for
  /// any other name.
  static Result<Shape> of_architecture(std::string_view name);
  static Result<Shape> of_preset(std::string_view name);

  /// Sets a key from text: "64", "0.5", "true", "0,0,4,128". Errors: kInvalidArgument (no such key, with the list of
  /// keys; not a value).
  Result<void> set(std::string_view key, std::string_view value);
  /// Fills in keys that follow from others and checks that all are consistent. Errors: kInvalidArgument, naming the
  /// key.
  Result<void> complete();

  const std::string& architecture() const { return architecture_; }
  const std::string& name() const { return name_; }
  std::span<const Key> keys() const { return keys_; }
  /// The preset's type of tensors; empty: only F16.
  const std::string& type() const { return type_; }
  std::span<const TypeRule> type_rules() const { return type_rules_; }

  /// The value of a key after complete(); 0 for a key that is left out.
  int64_t integer(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  /// Whether one of them is `value`.
  bool has(std::string_view key, int64_t value) const;

  bool tied_output = false;  ///< whether the token embedding is also the output matrix
  /// deepseek4, deepseek41: whether attn_output_a is a single matrix [inputs of a group, groups * rank], as in the
  /// first published files, rather than one for each group.
  bool flat_output_a = false;

 private:
  Shape() = default;
  static Shape make(std::string_view architecture);
  Key* find(std::string_view name);
  const Key* find(std::string_view name) const;
  void derive(std::string_view name, std::vector<double> values);
  void complete_deepseek4();
  void complete_deepseek41();
  void complete_engrams(int64_t layers);
  void complete_dspark(int64_t layers);
  void leave_first_layers(std::string_view name);
  void complete_lfm2();
  void complete_nemotron_h();
  void complete_kimi_linear();
  void complete_gemma4();
  Result<void> check_numbers() const;
  Result<void> check_heads() const;
  Result<void> check_layers() const;
  Result<void> check_lfm2() const;
  Result<void> check_state() const;
  Result<void> check_ratios() const;
  Result<void> check_layer_ids(std::string_view key) const;
  Result<void> check_deepseek41() const;
  Result<void> check_engrams() const;

  std::string architecture_;
  std::string name_;
  std::string type_;
  std::vector<TypeRule> type_rules_;
  std::vector<Key> keys_;
  int64_t first_ratio_ = 0;  // deepseek4: compression ratio of the first two layers
};

}  // namespace cairn::synth
