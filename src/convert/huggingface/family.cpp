#include "convert/huggingface/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/text/printable.h"

namespace cairn::convert {
namespace {

std::array<std::span<const Family>, 8> all_families() {
  return {llama_families(),   qwen_families(),   gemma_families(),     latent_families(),
          classic_families(), expert_families(), recurrent_families(), encoder_families()};
}

void set_rope_keys(Conversion& conversion) {
  const ModelConfig& rope = conversion.rope().full;
  const std::string type = conversion.rope().type();
  if (type == "linear" && rope.has({"factor"})) {
    conversion.set("rope.scaling.type", "linear");
    conversion.set("rope.scaling.factor", rope.number({"factor"}));
  } else if (type == "yarn" && rope.has({"factor"})) {
    conversion.set("rope.scaling.type", "yarn");
    conversion.set("rope.scaling.factor", rope.number({"factor"}));
    conversion.set("rope.scaling.original_context_length", rope.integer({"original_max_position_embeddings"}));
    if (rope.has({"extrapolation_factor"}))
      conversion.set("rope.scaling.yarn_ext_factor", rope.number({"extrapolation_factor"}));
    if (rope.has({"attention_factor", "attn_factor"}))
      conversion.set("rope.scaling.yarn_attn_factor", rope.number({"attention_factor", "attn_factor"}));
    if (rope.has({"beta_fast"})) conversion.set("rope.scaling.yarn_beta_fast", rope.number({"beta_fast"}));
    if (rope.has({"beta_slow"})) conversion.set("rope.scaling.yarn_beta_slow", rope.number({"beta_slow"}));
  } else if (type == "longrope" || type == "su") {
    conversion.set("rope.scaling.type", "longrope");
  }
  if (auto sections = rope.integers({"mrope_section"}); !sections.empty()) {
    sections.resize(4);
    conversion.set("rope.dimension_sections", std::move(sections));
  }
  if (rope.has({"rope_theta"})) conversion.set("rope.freq_base", rope.number({"rope_theta"}));
  const ModelConfig& windowed = conversion.rope().windowed;
  if (windowed.has({"rope_theta"})) conversion.set("rope.freq_base_swa", windowed.number({"rope_theta"}));
}

void set_expert_keys(Conversion& conversion) {
  conversion.copy_integer("expert_count", {"num_local_experts", "num_experts", "n_routed_experts"});
  conversion.copy_integer("expert_used_count", {"num_experts_per_tok", "num_experts_per_token", "top_k_experts"});
  conversion.copy_integer("expert_group_count", {"n_group"});
  conversion.copy_integer("expert_group_used_count", {"topk_group"});
  const std::string score =
      conversion.config().text_or({"score_function", "scoring_func", "score_func", "moe_router_activation",
                                   "moe_router_activation_func", "expert_selection_fn"},
                                  "");
  constexpr std::string_view kFunctions[] = {"", "softmax", "sigmoid", "", "sqrtsoftplus"};  // by expert_gating_func
  if (score.empty()) return;
  const auto* found = std::ranges::find(kFunctions, score);
  if (found == std::end(kFunctions)) {
    conversion.config().refuse(Code::kUnsupported,
                               fmt::format("experts are scored by \"{}\"; known are softmax, sigmoid "
                                           "and sqrtsoftplus",
                                           printable(score)));
    return;
  }
  conversion.set("expert_gating_func", static_cast<int64_t>(found - kFunctions));
}

}  // namespace

Result<const Family*> family_of(const ModelConfig& config) {
  const auto classes = config.texts({"architectures"});
  if (classes.empty()) {
    return fail(Code::kCorruptFile, "config.json names no class of the model under \"architectures\"");
  }
  for (const std::span<const Family> families : all_families()) {
    for (const Family& family : families) {
      if (std::ranges::find(family.classes, classes[0]) != family.classes.end()) return &family;
    }
  }
  return fail(Code::kUnsupported, "models of the class {} (model_type {}) cannot be converted; these can: {}",
              printable(classes[0]), printable(config.text_or({"model_type"}, "not given")), family_names());
}

std::string family_names() {
  std::string names;
  for (const std::span<const Family> families : all_families()) {
    for (const Family& family : families) {
      for (const std::string_view name : family.classes) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    }
  }
  return names;
}

void set_common_keys(Conversion& conversion) {
  conversion.set("block_count", conversion.layers() + conversion.next_layers());
  conversion.copy_integer("context_length", {"max_position_embeddings", "n_ctx", "n_positions", "max_length",
                                             "max_sequence_length", "model_max_length"});
  conversion.set("embedding_length", conversion.width());
  if (const auto* length = conversion.config().find({"intermediate_size"}); length != nullptr && length->is_array()) {
    conversion.set("feed_forward_length", conversion.config().integers({"intermediate_size"}));
  } else {
    conversion.copy_integer("feed_forward_length", {"prefix_dense_intermediate_size", "dense_intermediate_size",
                                                    "intermediate_size", "n_inner", "hidden_dim"});
  }
  conversion.copy_integer("attention.head_count", {"num_attention_heads", "n_head", "n_heads"});
  conversion.copy_integer("attention.head_count_kv", {"num_key_value_heads", "n_kv_heads"});
  if (!conversion.config().boolean_or({"is_causal"}, true)) conversion.set("attention.causal", false);
  set_rope_keys(conversion);
  conversion.copy_number("attention.layer_norm_rms_epsilon", {"rms_norm_eps", "norm_eps"});
  conversion.copy_number("attention.layer_norm_epsilon", {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"});
  set_expert_keys(conversion);
  conversion.copy_integer("attention.key_length", {"head_dim"});
  conversion.copy_integer("attention.value_length", {"head_dim"});
}

void interleave_heads(SourceTensor& source, int64_t heads) {
  const int64_t rows = source.shape.size() == 1 ? source.columns() : source.rows->count();
  if (heads <= 0 || rows % (2 * heads) != 0) return;
  const int64_t half = rows / heads / 2;
  std::vector<int64_t> index;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < half; ++i) {
      index.push_back(head * 2 * half + i);
      index.push_back(head * 2 * half + half + i);
    }
  }
  reorder(source, std::move(index));
}

void interleave_queries_and_keys(const Conversion& conversion, SourceTensor& source) {
  if (source.part == "self_attn.q_proj") interleave_heads(source, conversion.heads());
  if (source.part == "self_attn.k_proj") interleave_heads(source, conversion.kv_heads());
}

void reorder(SourceTensor& source, std::vector<int64_t> index) {
  source.rows =
      source.shape.size() == 1 ? gathered(source.rows, std::move(index)) : selected(source.rows, std::move(index));
}

void squeeze(SourceTensor& source) {
  if (source.shape.size() > 2) std::erase(source.shape, 1);
}

void negative_exponential(SourceTensor& source) {
  source.rows = mapped(source.rows, [](float value) { return -std::exp(value); });
}

void add_one(SourceTensor& source) {
  source.rows = mapped(source.rows, [](float value) { return value + 1.0f; });
}

void add_gate_and_up(Conversion& conversion, const SourceTensor& source, std::string_view gate, std::string_view up) {
  const int64_t both = source.matrix_rows(), matrices = source.rows->count() / std::max<int64_t>(1, both);
  if (both % 2 != 0) {
    conversion.config().refuse(Code::kCorruptFile, fmt::format("tensor {} has {} rows for gate and up together",
                                                               printable(source.name), both));
    return;
  }
  for (const int64_t half : {0, 1}) {
    std::vector<int64_t> rows;
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
      for (int64_t row = 0; row < both / 2; ++row) rows.push_back(matrix * both + half * (both / 2) + row);
    }
    conversion.add(source, half == 0 ? gate : up, selected(source.rows, std::move(rows)), both / 2);
  }
}

void add_llama3_factors(Conversion& conversion, double factor_if_missing) {
  const ModelConfig& rope = conversion.rope().full;
  if (conversion.rope().type() != "llama3") return;
  // In float32, as transformers computes the frequencies.
  const auto number = [&](std::string_view name, double missing) {
    return static_cast<float>(rope.number_or({name}, missing));
  };
  const float base = number("rope_theta", 10'000.0), factor = number("factor", factor_if_missing),
              low = number("low_freq_factor", 1.0), high = number("high_freq_factor", 4.0),
              context = number("original_max_position_embeddings", 8192.0);
  std::vector<float> factors;
  const int64_t length = conversion.head_length();
  for (int64_t i = 0; i < length; i += 2) {
    const float frequency = 1.0f / std::pow(base, static_cast<float>(i) / static_cast<float>(length));
    const float wave = 2.0f * std::numbers::pi_v<float> / frequency;
    const float smooth = (context / wave - low) / (high - low);
    factors.push_back(wave < context / high  ? 1.0f
                      : wave > context / low ? factor
                                             : 1.0f / ((1.0f - smooth) / factor + smooth));
  }
  const auto count = static_cast<int64_t>(factors.size());
  conversion.add("rope_freqs.weight", {count}, constant_row(std::move(factors)));
}

std::vector<bool> layers_of_type(const Conversion& conversion, std::string_view name) {
  const auto types = conversion.config().texts({"layer_types"});
  std::vector<bool> is_type;
  for (int64_t i = 0; i < conversion.layers(); ++i) {
    is_type.push_back(static_cast<size_t>(i) < types.size() && types[static_cast<size_t>(i)] == name);
  }
  return is_type;
}

void set_pooling(Conversion& conversion) {
  std::error_code missing;
  const auto path = conversion.folder() / "modules.json";
  if (!std::filesystem::exists(path, missing)) return;
  const auto modules = read_json_list(path, kJsonFileBytesMax);
  if (!modules) return conversion.config().refuse(modules.error().code, modules.error().message);
  for (const auto& each : *modules) {
    const ModelConfig module(each, path.string());
    if (!module.text_or({"type"}, "").ends_with("Pooling")) continue;
    const std::filesystem::path place = module.text_or({"path"}, "1_Pooling");
    if (place.is_absolute() || place.string().contains("..")) continue;
    const auto json = read_json_file(conversion.folder() / place / "config.json", kJsonFileBytesMax);
    if (!json) return conversion.config().refuse(json.error().code, json.error().message);
    const ModelConfig pooling(*json, (conversion.folder() / place / "config.json").string());
    const std::string mode = pooling.text_or({"pooling_mode"}, "");
    // 1 mean, 2 the first token, 3 the last
    const int64_t type = pooling.boolean_or({"pooling_mode_mean_tokens"}, false) || mode == "mean"      ? 1
                         : pooling.boolean_or({"pooling_mode_cls_token"}, false) || mode == "cls"       ? 2
                         : pooling.boolean_or({"pooling_mode_lasttoken"}, false) || mode == "lasttoken" ? 3
                                                                                                        : 0;
    if (type == 0) {
      return conversion.config().refuse(Code::kUnsupported,
                                        "the pooling of modules.json is none of mean, cls and "
                                        "lasttoken");
    }
    conversion.set("pooling_type", type);
    return;
  }
}

}  // namespace cairn::convert
