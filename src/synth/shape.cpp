#include "synth/shape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "synth/presets.h"

namespace cairn::synth {
namespace {

// gemma4: of so many layers the last one has no window, and neither has the last layer of all.
constexpr int64_t kWindowPeriod = 6;

constexpr std::string_view kMayBeZero[] = {"hash_layer_count",
                                           "leading_dense_block_count",
                                           "nextn_predict_layers",
                                           "attention.shared_kv_layers",
                                           "embedding_length_per_layer_input",
                                           "engram.pad_id",
                                           "dspark.stage_count",
                                           "dspark.noise_token_id"};

template <class Names>
std::string list_of(Names&& names) {
  std::string list;
  for (const auto& name : names) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
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

std::string_view kind_of(const Key& key) {
  if (key.type == gguf::ValueType::kBool) return "true or false";
  const bool whole = is_whole(key);
  if (key.is_array) return whole ? "whole numbers with commas between them" : "numbers with commas between them";
  return whole ? "a whole number" : "a number";
}

int64_t most(std::string_view key) {
  if (key == "block_count") return kLayersMax;
  if (key == "expert_count") return kExpertsMax;
  if (key.ends_with("context_length")) return INT32_MAX;
  if (key == "engram.primes") return UINT32_MAX;
  if (key == "engram.offsets" || key == "engram.multipliers") return kMultiplierMax;
  return kWidthMax;
}

}  // namespace

std::unexpected<Error> misfit(std::string_view key, std::string_view what) {
  return fail_at(fmt::format("key {}", key), Code::kInvalidArgument, "{}", what);
}

std::span<const std::string_view> architectures() {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"llama", "qwen3", "qwen3moe", "qwen35", "qwen35moe", "lfm2moe", "nemotron_h_moe",
                                       "kimi-linear", "deepseek2", "deepseek4", "deepseek41", "gemma4", "gpt-oss"});
  return kNames;
}

std::span<const PresetInfo> presets() {
  static const std::vector<PresetInfo> infos = [] {
    std::vector<PresetInfo> list;
    for (const Preset& preset : preset_table()) list.push_back(preset.info);
    return list;
  }();
  return infos;
}

Shape Shape::make(std::string_view architecture) {
  const auto found = std::ranges::find(architecture_table(), architecture, &Architecture::name);
  CAIRN_CHECK(found != architecture_table().end());
  Shape shape;
  shape.architecture_ = found->name;
  shape.name_ = fmt::format("synthetic {}", found->name);
  shape.tied_output = found->tied_output;
  for (const KeyDefault& key : found->keys) {
    shape.keys_.push_back({std::string(key.name), key.type, key.is_array, {}, false});
    if (!key.value.empty()) CAIRN_CHECK(shape.set(key.name, key.value).has_value());
    shape.keys_.back().is_chosen = false;
  }
  return shape;
}

Result<Shape> Shape::of_architecture(std::string_view name) {
  if (name == "moe") return make("qwen3moe");
  if (is_among(architectures(), name)) return make(name);
  return fail(Code::kInvalidArgument, "'{}' is no architecture that can be made; choose one of {}, moe", name,
              list_of(architectures()));
}

Result<Shape> Shape::of_preset(std::string_view name) {
  const auto found = std::ranges::find(preset_table(), name, [](const Preset& preset) { return preset.info.name; });
  if (found == preset_table().end()) {
    return fail(Code::kInvalidArgument, "there is no preset '{}'; choose one of {}", name,
                list_of(presets() | std::views::transform(&PresetInfo::name)));
  }
  Shape shape = make(found->info.architecture);
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

bool Shape::has(std::string_view key, int64_t value) const {
  const Key* found = find(key);
  return found != nullptr && std::ranges::find(found->values, static_cast<double>(value)) != found->values.end();
}

Result<void> Shape::set(std::string_view key, std::string_view value) {
  Key* found = find(key);
  if (found == nullptr) {
    return fail(Code::kInvalidArgument, "{} has no key '{}'; it has {}", architecture_, key,
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

// If a shape has fewer layers than its preset, the preset's values of the first layers are left.
void Shape::leave_first_layers(std::string_view name) {
  Key* key = find(name);
  const int64_t layers = std::min(integer("block_count"), kLayersMax);
  if (!key->is_chosen && std::cmp_greater(key->values.size(), layers)) key->values.resize(static_cast<size_t>(layers));
}

// Every third of a small shape's layers has attention.
void Shape::complete_lfm2() {
  const int64_t layers = std::min(integer("block_count"), kLayersMax);
  const auto heads = static_cast<double>((integer("attention.head_count") + 3) / 4);
  std::vector<double> kv_heads;
  for (int64_t layer = 0; layer < layers; ++layer) kv_heads.push_back(layer % 3 == 2 ? heads : 0);
  derive("attention.head_count_kv", std::move(kv_heads));
  leave_first_layers("attention.head_count_kv");
}

// A small shape's layers are a state, experts, attention, experts and so on; a layer is one of the three alone.
void Shape::complete_nemotron_h() {
  const int64_t layers = std::min(integer("block_count"), kLayersMax);
  std::vector<double> kv_heads, widths;
  for (int64_t layer = 0; layer < layers; ++layer) {
    kv_heads.push_back(layer % 4 == 2 ? 2 : 0);
    widths.push_back(layer % 2 == 1 ? static_cast<double>(integer("expert_feed_forward_length")) : 0);
  }
  derive("attention.head_count_kv", std::move(kv_heads));
  derive("feed_forward_length", std::move(widths));
  leave_first_layers("attention.head_count_kv");
  leave_first_layers("feed_forward_length");
}

// Every fourth layer and the last have attention.
void Shape::complete_kimi_linear() {
  const int64_t layers = std::min(integer("block_count"), kLayersMax);
  std::vector<double> kv_heads;
  for (int64_t layer = 0; layer < layers; ++layer) kv_heads.push_back(layer % 4 == 3 || layer + 1 == layers ? 1 : 0);
  derive("attention.head_count_kv", std::move(kv_heads));
  leave_first_layers("attention.head_count_kv");
  const auto rope = static_cast<double>(integer("rope.dimension_count"));
  derive("attention.key_length", {static_cast<double>(integer("attention.kv_lora_rank")) + rope});
}

void Shape::complete_gemma4() {
  const int64_t layers = std::min(integer("block_count"), kLayersMax);
  std::vector<double> windows;
  for (int64_t i = 0; i < layers; ++i) windows.push_back(i % kWindowPeriod != kWindowPeriod - 1 && i + 1 < layers);
  derive("attention.sliding_window_pattern", windows);
  Key* kv_heads = find("attention.head_count_kv");
  if (std::cmp_not_equal(kv_heads->values.size(), layers) && kv_heads->values.size() <= 2) {
    const double local = kv_heads->values.front(), global = kv_heads->values.back();
    kv_heads->values.clear();
    for (const double window : windows) kv_heads->values.push_back(window != 0 ? local : global);
  }
  // Fewer layers than the preset's share less, so that each finds a layer of its kind to read.
  Key* shared = find("attention.shared_kv_layers");
  if (!shared->values.empty() && !shared->is_chosen) {
    shared->values[0] = std::clamp<double>(shared->values[0], 0, std::max<double>(0, layers - kWindowPeriod));
  }
  for (const char* key : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    derive(key, {static_cast<double>(integer("attention.key_length_swa"))});
  }
}

Result<void> Shape::complete() {
  if (architecture_ == "gemma4") complete_gemma4();
  if (architecture_ == "deepseek4") complete_deepseek4();
  if (architecture_ == "deepseek41") complete_deepseek41();
  if (architecture_ == "deepseek2") {
    const auto latent = static_cast<double>(integer("attention.kv_lora_rank"));
    derive("attention.key_length", {latent + static_cast<double>(integer("rope.dimension_count"))});
    derive("attention.value_length", {latent});
  }
  if (architecture_.starts_with("deepseek")) derive("attention.head_count_kv", {1});
  if (architecture_ == "lfm2moe") complete_lfm2();
  if (architecture_ == "nemotron_h_moe") complete_nemotron_h();
  if (architecture_ == "kimi-linear") complete_kimi_linear();
  derive("attention.value_length", {static_cast<double>(integer("attention.key_length"))});
  derive("rope.dimension_count", {static_cast<double>(integer("attention.key_length"))});
  CAIRN_TRY_VOID(check_numbers());
  CAIRN_TRY_VOID(check_heads());
  CAIRN_TRY_VOID(check_layers());
  if (architecture_ == "deepseek4") return check_ratios();
  return architecture_ == "deepseek41" ? check_deepseek41() : Result<void>();
}

Result<void> Shape::check_numbers() const {
  for (const Key& key : keys_) {
    if (!is_whole(key)) continue;
    const int64_t least = key.is_array || is_among(kMayBeZero, key.name) ? 0 : 1;
    for (const double value : key.values) {
      if (value >= static_cast<double>(least) && value <= static_cast<double>(most(key.name))) continue;
      return misfit(key.name, fmt::format("{} must be in {} .. {}", value, least, most(key.name)));
    }
  }
  return {};
}

Result<void> Shape::check_heads() const {
  const int64_t heads = integer("attention.head_count");
  const int64_t rope = integer("rope.dimension_count");
  const bool is_lfm2 = architecture_ == "lfm2moe";
  const bool is_kimi_linear = architecture_ == "kimi-linear";
  const bool is_hybrid = is_lfm2 || is_kimi_linear || architecture_ == "nemotron_h_moe";
  for (const int64_t kv_heads : integers("attention.head_count_kv")) {
    if (kv_heads == 0 ? is_hybrid : heads % kv_heads == 0) continue;
    return misfit("attention.head_count_kv", fmt::format("{} does not divide the {} heads", kv_heads, heads));
  }
  if (is_lfm2) CAIRN_TRY_VOID(check_lfm2());
  CAIRN_TRY_VOID(check_state());
  const bool is_mla = is_kimi_linear || architecture_ == "deepseek2";
  const int64_t head = integer(is_mla ? "attention.key_length_mla" : "attention.key_length");
  if (!is_lfm2 && (rope % 2 != 0 || rope > head || (is_mla && rope == head))) {
    return misfit("rope.dimension_count", fmt::format("{} of a head's {} dimensions cannot be rotated: they must be "
                                                      "pairs{}",
                                                      rope, head, is_mla ? ", and some must be left" : ""));
  }
  if (integer("expert_used_count") > integer("expert_count")) {
    return misfit("expert_used_count", fmt::format("there are {} experts", integer("expert_count")));
  }
  if (integer("expert_count") > 0 && integer("expert_used_count") == 0) {
    return misfit("expert_used_count", "it is missing: how many experts a token uses");
  }
  if (!architecture_.starts_with("deepseek4")) return {};
  const int64_t groups = integer("attention.output_group_count");
  if (heads % groups != 0) {
    return misfit("attention.output_group_count", fmt::format("it does not divide the {} heads", heads));
  }
  if (rope > integer("attention.indexer.key_length")) {
    return misfit("attention.indexer.key_length", fmt::format("{} dimensions of it are rotated", rope));
  }
  return {};
}

Result<void> Shape::check_lfm2() const {
  const int64_t heads = integer("attention.head_count"), width = integer("embedding_length");
  if (width % heads != 0 || width / heads % 2 != 0) {
    return misfit("attention.head_count", fmt::format("it does not divide the {} columns into pairs", width));
  }
  return {};
}

Result<void> Shape::check_state() const {
  const int64_t heads = integer("ssm.time_step_rank");
  if (heads == 0) return {};
  if (heads % integer("ssm.group_count") != 0) {
    return misfit("ssm.group_count", fmt::format("it does not divide the {} heads", heads));
  }
  if (integer("ssm.inner_size") % heads != 0) {
    return misfit("ssm.inner_size", fmt::format("{} heads do not divide it", heads));
  }
  return {};
}

Result<void> Shape::check_layers() const {
  const int64_t blocks = integer("block_count");
  const int64_t predicting = integer("nextn_predict_layers");
  if (predicting >= blocks) return misfit("nextn_predict_layers", fmt::format("there are {} blocks", blocks));
  const int64_t layers = blocks - predicting;
  for (const char* key : {"hash_layer_count", "leading_dense_block_count"}) {
    if (integer(key) > layers) return misfit(key, fmt::format("there are {} layers", layers));
  }
  if (architecture_ == "gemma4" && std::cmp_not_equal(integers("attention.head_count_kv").size(), blocks)) {
    return misfit("attention.head_count_kv",
                  fmt::format("{} values for {} layers; one for all, or two for those with a "
                              "window and the others, would do",
                              integers("attention.head_count_kv").size(), blocks));
  }
  for (const char* key : {"attention.compress_ratios", "swiglu_clamp_exp", "attention.sliding_window_pattern",
                          "feed_forward_length", "attention.head_count_kv"}) {
    const Key* found = find(key);
    if (found == nullptr || !found->is_array) continue;
    if (std::cmp_not_equal(found->values.size(), blocks)) {
      return misfit(key, fmt::format("{} values for {} layers", found->values.size(), blocks));
    }
  }
  return {};
}

}  // namespace cairn::synth
