#include "synth/shape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "gguf/encode.h"
#include "synth/presets.h"

namespace cairn::synth {
namespace {

// gemma4: of so many layers the last one has no window, and neither has the last layer of all.
constexpr int64_t kWindowPeriod = 6;

template <class Names>
std::string list_of(Names&& names) {
  std::string list;
  for (const auto& name : names) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

template <class Number>
std::optional<double> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(number);
}

std::optional<double> value_of(gguf::ValueType type, std::string_view text) {
  if (type == gguf::ValueType::kBool) {
    if (text == "true") return 1;
    return text == "false" ? std::optional<double>(0) : std::nullopt;
  }
  if (type == gguf::ValueType::kF32) {
    const auto number = number_of<double>(text);
    return number.has_value() && std::isfinite(*number) ? number : std::nullopt;
  }
  return type == gguf::ValueType::kU64 ? number_of<uint64_t>(text) : number_of<uint32_t>(text);
}

bool is_whole(const Key& key) { return key.type == gguf::ValueType::kU32 || key.type == gguf::ValueType::kU64; }

template <class Number>
void append_numbers(std::span<const double> values, std::string& out) {
  for (const double value : values) gguf::append_number(out, static_cast<Number>(value));
}

gguf::Value file_value(const Key& key, std::deque<std::string>& numbers) {
  using enum gguf::ValueType;
  if (!key.is_array) {
    if (key.type == kBool) return {kBool, key.values[0] != 0};
    if (key.type == kF32) return {kF32, key.values[0]};
    return {key.type, static_cast<int64_t>(key.values[0])};
  }
  std::string& bytes = numbers.emplace_back();
  if (key.type == kBool) append_numbers<uint8_t>(key.values, bytes);
  if (key.type == kF32) append_numbers<float>(key.values, bytes);
  if (key.type == kU32) append_numbers<uint32_t>(key.values, bytes);
  if (key.type == kU64) append_numbers<uint64_t>(key.values, bytes);
  gguf::Array array{.type = key.type, .size = key.values.size(), .numbers = {}, .strings = {}, .arrays = {}};
  array.numbers = std::as_bytes(std::span(bytes));
  return {kArray, std::move(array)};
}

std::string_view kind_of(const Key& key) {
  if (key.type == gguf::ValueType::kBool) return "true or false";
  const bool whole = is_whole(key);
  if (key.is_array) return whole ? "whole numbers with commas between them" : "numbers with commas between them";
  return whole ? "a whole number" : "a number";
}

}  // namespace

std::unexpected<Error> misfit(std::string_view key, std::string_view what) {
  return fail_at(fmt::format("key {}", key), Code::kInvalidArgument, "{}", what);
}

std::span<const std::string_view> architectures() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const Architecture& row : architecture_table()) list.push_back(row.name);
    return list;
  }();
  return names;
}

std::span<const PresetInfo> presets() {
  static const std::vector<PresetInfo> infos = [] {
    std::vector<PresetInfo> list;
    for (const Preset& preset : preset_table()) list.push_back(preset.info);
    return list;
  }();
  return infos;
}

Shape Shape::make(const Architecture& row) {
  Shape shape;
  shape.row_ = &row;
  shape.name_ = fmt::format("synthetic {}", row.name);
  shape.tied_output = row.tied_output;
  for (const KeyDefault& key : row.keys) {
    shape.keys_.push_back({std::string(key.name), key.type, key.is_array, {}, false});
    if (!key.value.empty()) CAIRN_CHECK(shape.set(key.name, key.value).has_value());
    shape.keys_.back().is_chosen = false;
  }
  return shape;
}

Result<Shape> Shape::of_architecture(std::string_view name) {
  const auto found = std::ranges::find(architecture_table(), name == "moe" ? "qwen3moe" : name, &Architecture::name);
  if (found != architecture_table().end()) return make(*found);
  return fail(Code::kInvalidArgument, "'{}' is no architecture that can be made; choose one of {}, moe", name,
              list_of(architectures()));
}

Result<Shape> Shape::of_preset(std::string_view name) {
  const auto found = std::ranges::find(preset_table(), name, [](const Preset& preset) { return preset.info.name; });
  if (found == preset_table().end()) {
    return fail(Code::kInvalidArgument, "there is no preset '{}'; choose one of {}", name,
                list_of(presets() | std::views::transform(&PresetInfo::name)));
  }
  CAIRN_TRY(Shape shape, of_architecture(found->info.architecture));
  shape.name_ = fmt::format("synthetic {}", found->info.name);
  shape.tied_output = found->tied_output;
  shape.type_ = found->type;
  shape.first_ratio_ = found->first_ratio;
  for (const auto& [pattern, type] : found->type_rules) {
    shape.type_rules_.push_back({std::string(pattern), std::string(type), true});
  }
  for (const auto& [key, value] : found->keys) CAIRN_CHECK(shape.set(key, value).has_value());
  for (Key& key : shape.keys_) key.is_chosen = false;
  return shape;
}

Key* Shape::find(std::string_view name) {
  const auto found = std::ranges::find(keys_, name, &Key::name);
  return found == keys_.end() ? nullptr : &*found;
}
const Key* Shape::find(std::string_view name) const { return const_cast<Shape*>(this)->find(name); }

int64_t Shape::integer(std::string_view key) const {
  const Key* found = find(key);
  return found == nullptr || found->values.empty() ? 0 : static_cast<int64_t>(found->values[0]);
}

std::vector<int64_t> Shape::integers(std::string_view key) const {
  const Key* found = find(key);
  if (found == nullptr) return {};
  return {found->values.begin(), found->values.end()};
}

Result<void> Shape::set(std::string_view key, std::string_view value) {
  Key* found = find(key);
  if (found == nullptr) {
    return fail(Code::kInvalidArgument, "{} has no key '{}'; it has {}", architecture(), key,
                list_of(keys_ | std::views::transform(&Key::name)));
  }
  std::vector<double> values;
  for (const auto part : std::views::split(value, ',')) {
    const auto number = value_of(found->type, std::string_view(part));
    if (!number.has_value() || (!found->is_array && !values.empty())) {
      return misfit(key, fmt::format("'{}' is not {}", value, kind_of(*found)));
    }
    values.push_back(*number);
  }
  if (values.empty()) return misfit(key, fmt::format("it needs {}", kind_of(*found)));
  found->values = std::move(values);
  found->is_chosen = true;
  return {};
}

void Shape::derive(std::string_view name, std::vector<double> values) {
  Key* key = find(name);
  if (key != nullptr && key->values.empty()) key->values = std::move(values);
}

void Shape::derive_layers(std::string_view name, const std::function<double(int64_t layer)>& value) {
  Key* key = find(name);
  const auto count = static_cast<size_t>(layers());
  if (key->values.empty()) {
    for (size_t layer = 0; layer < count; ++layer) key->values.push_back(value(static_cast<int64_t>(layer)));
  }
  if (!key->is_chosen && key->values.size() > count) key->values.resize(count);
}

std::string Shape::architecture() const { return std::string(row_->name); }
int64_t Shape::layers() const { return std::min(integer("block_count"), kLayersMax); }

ShapeMetadata Shape::metadata() const {
  ShapeMetadata metadata;
  const auto add = [&](std::string_view key, gguf::Value value) {
    metadata.values.emplace_back(fmt::format("{}.{}", architecture(), key), std::move(value));
  };
  for (const Key& key : keys_) {
    if (key.values.empty()) continue;
    add(key.name, file_value(key, metadata.numbers));
    if (key.name == "rope.scaling.factor")
      add("rope.scaling.type", {gguf::ValueType::kString, std::string_view("yarn")});
  }
  return metadata;
}

// The latent rows are keys, and their first part is values.
void complete_mla(Shape& shape) {
  const auto latent = static_cast<double>(shape.integer("attention.kv_lora_rank"));
  shape.derive("attention.key_length", {latent + static_cast<double>(shape.integer("rope.dimension_count"))});
  shape.derive("attention.value_length", {latent});
}

// Every third of a small shape's layers has attention.
void complete_lfm2(Shape& shape) {
  const auto heads = static_cast<double>((shape.integer("attention.head_count") + 3) / 4);
  shape.derive_layers("attention.head_count_kv", [=](int64_t layer) { return layer % 3 == 2 ? heads : 0; });
}

// A small shape's layers are a state, experts, attention, experts and so on; a layer is one of the three alone.
void complete_nemotron_h(Shape& shape) {
  const auto width = static_cast<double>(shape.integer("expert_feed_forward_length"));
  shape.derive_layers("attention.head_count_kv", [](int64_t layer) { return layer % 4 == 2 ? 2 : 0; });
  shape.derive_layers("feed_forward_length", [=](int64_t layer) { return layer % 2 == 1 ? width : 0; });
}

// Every fourth layer and the last have attention.
void complete_kimi_linear(Shape& shape) {
  const int64_t last = shape.layers() - 1;
  shape.derive_layers("attention.head_count_kv", [=](int64_t layer) { return layer % 4 == 3 || layer == last; });
  complete_mla(shape);
}

void complete_gemma4(Shape& shape) {
  const int64_t layers = shape.layers();
  const auto has_window = [=](int64_t layer) {
    return layer % kWindowPeriod != kWindowPeriod - 1 && layer + 1 < layers;
  };
  shape.derive_layers("attention.sliding_window_pattern", has_window);
  Key* kv_heads = shape.find("attention.head_count_kv");
  if (std::cmp_not_equal(kv_heads->values.size(), layers) && kv_heads->values.size() <= 2) {
    const double local = kv_heads->values.front(), global = kv_heads->values.back();
    kv_heads->values.clear();
    for (const double window : shape.find("attention.sliding_window_pattern")->values) {
      kv_heads->values.push_back(window != 0 ? local : global);
    }
  }
  // Fewer layers than the preset's share less, so that each finds a layer of its kind to read.
  Key* shared = shape.find("attention.shared_kv_layers");
  if (!shared->values.empty() && !shared->is_chosen) {
    shared->values[0] = std::clamp<double>(shared->values[0], 0, std::max<double>(0, layers - kWindowPeriod));
  }
  for (const char* key : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    shape.derive(key, {static_cast<double>(shape.integer("attention.key_length_swa"))});
  }
}

// Layers that see everything take keys for values, but for those of the small models, which have inputs for each layer.
void add_known_gemma4(const Shape& shape, KnownTensors& known) {
  const bool same = shape.integer("attention.key_length") == shape.integer("attention.value_length");
  if (same && shape.integer("embedding_length_per_layer_input") == 0) return;
  for (int64_t layer = 0; layer < shape.layers(); ++layer) {
    known.push_back({fmt::format("blk.{}.attn_v.weight", layer), {1}});
  }
}

Result<void> Shape::complete() {
  if (row_->complete != nullptr) row_->complete(*this);
  derive("attention.value_length", {static_cast<double>(integer("attention.key_length"))});
  derive("rope.dimension_count", {static_cast<double>(integer("attention.key_length"))});
  CAIRN_TRY_VOID(check());
  return row_->check == nullptr ? Result<void>() : row_->check(*this);
}

Result<void> Shape::check() const {
  for (const Key& key : keys_) {
    const bool is_wide = key.type == gguf::ValueType::kU64;
    const int64_t most = key.name == "block_count" ? kLayersMax : is_wide ? kMultiplierMax : kNumberMax;
    const double largest = key.values.empty() ? 0 : std::ranges::max(key.values);
    if (is_whole(key) && largest > static_cast<double>(most))
      return misfit(key.name, fmt::format("{} is above {}", largest, most));
  }
  if (integer("expert_used_count") > integer("expert_count")) {
    return misfit("expert_used_count", fmt::format("there are {} experts", integer("expert_count")));
  }
  const int64_t blocks = integer("block_count");
  for (const char* name : {"attention.compress_ratios", "swiglu_clamp_exp", "attention.sliding_window_pattern",
                           "feed_forward_length", "attention.head_count_kv"}) {
    const Key* key = find(name);
    if (key == nullptr || !key->is_array || std::cmp_equal(key->values.size(), blocks)) continue;
    return misfit(name, fmt::format("{} values for {} layers", key->values.size(), blocks));
  }
  return {};
}

}  // namespace cairn::synth
