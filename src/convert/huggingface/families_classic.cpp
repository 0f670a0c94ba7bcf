// Dense decoders that differ from Llama in norms, ropes or feed-forward.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

// Factors of a long rope, and the magnitude that readers apply with them. Source: transformers' definition of rope type
// "longrope".
void add_long_rope(Conversion& conversion, int64_t turned) {
  const ModelConfig& rope = conversion.rope().full;
  const auto longer = rope.numbers({"long_factor"}), shorter = rope.numbers({"short_factor"});
  if (longer.empty()) return;
  const auto pairs = static_cast<size_t>(turned / 2);
  if (longer.size() != pairs || shorter.size() != pairs) {
    conversion.config().refuse(Code::kCorruptFile,
                               fmt::format("the rope has {} long and {} short factors, but turns {} "
                                           "pairs",
                                           longer.size(), shorter.size(), pairs));
    return;
  }
  const double trained = rope.number({"original_max_position_embeddings"});
  const double scale = conversion.config().number({"n_positions", "max_position_embeddings"}) / trained;
  double factor = 1.0;
  if (scale > 1.0) {
    factor = conversion.rope().type() == "yarn" ? 0.1 * std::log(scale) + 1.0
                                                : std::sqrt(1.0 + std::log(scale) / std::log(trained));
  }
  conversion.set("rope.scaling.attn_factor", factor);
  const auto count = static_cast<int64_t>(pairs);
  conversion.add("rope_factors_long.weight", {count}, constant_row({longer.begin(), longer.end()}));
  conversion.add("rope_factors_short.weight", {count}, constant_row({shorter.begin(), shorter.end()}));
}

void set_phi3_keys(Conversion& conversion) {
  const ModelConfig& rope = conversion.rope().full;
  const int64_t turned = conversion.turned(1.0);
  conversion.set("rope.scaling.original_context_length",
                 rope.integer_or({"original_max_position_embeddings"},
                                 conversion.config().integer({"n_positions", "max_position_embeddings"})));
  conversion.set("rope.dimension_count", turned);
  conversion.erase("rope.scaling.type");  // readers know it by the factors
  conversion.set("attention.sliding_window", conversion.config().integer_or({"sliding_window"}, 0));
  add_long_rope(conversion, turned);
}

void set_olmo2_keys(Conversion& conversion) {
  if (!conversion.config().has({"sliding_window"})) return;
  conversion.copy_integer("attention.sliding_window", {"sliding_window"});
  std::vector<bool> windowed = layers_of_type(conversion, "sliding_attention");
  if (!conversion.config().has({"layer_types"})) {
    for (size_t i = 0; i < windowed.size(); ++i) windowed[i] = (i + 1) % 4 != 0;
  }
  conversion.set("attention.sliding_window_pattern", std::move(windowed));
}

void set_command_r_keys(Conversion& conversion) {
  conversion.copy_integer("context_length", {"model_max_length", "max_position_embeddings"});
  conversion.set("logit_scale", conversion.config().number({"logit_scale"}));
  conversion.set("rope.scaling.type", "none");
}

void set_cohere2_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.set("logit_scale", config.number({"logit_scale"}));
  conversion.set("attention.sliding_window", config.integer({"sliding_window"}));
  conversion.copy_integer("vocab_size", {"vocab_size"});
  const double share = config.number_or({"rotary_pct"}, 1.0);
  conversion.set("rope.dimension_count",
                 static_cast<int64_t>(share * static_cast<double>(conversion.width() / conversion.heads())));
  conversion.set("rope.scaling.type", "none");
}

void set_exaone4_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.copy_integer("vocab_size", {"vocab_size"});
  add_llama3_factors(conversion, 16.0);
  if (!config.has({"sliding_window"})) return;
  conversion.copy_integer("attention.sliding_window", {"sliding_window"});
  std::vector<bool> windowed = layers_of_type(conversion, "sliding_attention");
  const auto* pattern = config.find({"sliding_window_pattern"});
  if (!config.has({"layer_types"}) && pattern != nullptr) {
    // A period, or a text such as LLLG: L is a layer with a window.
    const std::string letters = pattern->is_string() ? pattern->get<std::string>() : "";
    const int64_t period = pattern->is_string() ? 1 : std::max<int64_t>(1, config.integer({"sliding_window_pattern"}));
    for (size_t i = 0; i < windowed.size(); ++i) {
      windowed[i] = letters.empty() ? (i + 1) % static_cast<size_t>(period) != 0 : letters[i % letters.size()] == 'L';
    }
  }
  conversion.set("attention.sliding_window_pattern", std::move(windowed));
}

void set_falcon_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.set("context_length", int64_t{2048});  // which configs do not say
  conversion.set("tensor_data_layout", "jploski");
  conversion.set("feed_forward_length", 4 * conversion.width());
  conversion.set("attention.head_count_kv", config.integer_or({"num_kv_heads", "n_head_kv"}, 1));
}

// Queries, keys and values are grouped by the head of keys.
bool change_falcon_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part != "self_attention.query_key_value") return false;
  const int64_t heads = conversion.heads(),
                groups = std::max<int64_t>(1, conversion.config().integer_or({"num_kv_heads", "n_head_kv"}, 1)),
                length = conversion.width() / heads, queries = heads / groups;
  const int64_t rows = source.shape.size() == 1 ? source.columns() : source.rows->count();
  if (rows != groups * (queries + 2) * length) {
    conversion.config().refuse(
        Code::kCorruptFile, fmt::format("tensor {} has {} rows, but {} heads in {} groups need {}", source.name, rows,
                                        heads, groups, groups * (queries + 2) * length));
    return true;
  }
  std::vector<int64_t> index;
  const auto take = [&](int64_t first, int64_t count) {
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t i = 0; i < count * length; ++i) index.push_back((group * (queries + 2) + first) * length + i);
    }
  };
  take(0, queries);
  take(queries, 1);
  take(queries + 1, 1);
  reorder(source, std::move(index));
  return false;
}

void set_gpt2_keys(Conversion& conversion) {
  conversion.copy_integer("context_length", {"n_ctx", "n_positions"});
  conversion.set("feed_forward_length", 4 * conversion.width());
}

// Its matrices are stored with inputs as rows.
bool change_gpt2_tensor(Conversion& /*conversion*/, SourceTensor& source) {
  const bool matrix = source.suffix == ".weight" && source.shape.size() == 2;
  if (matrix &&
      (source.part.ends_with(".c_attn") || source.part.ends_with(".c_proj") || source.part.ends_with(".c_fc"))) {
    source.rows = transposed(source.rows, source.matrix_rows());
    std::swap(source.shape[0], source.shape[1]);
  }
  return false;
}

void set_stablelm_keys(Conversion& conversion) {
  conversion.set("rope.dimension_count", conversion.turned(0.25));
  conversion.set("use_parallel_residual", conversion.config().boolean_or({"use_parallel_residual"}, true));
  conversion.copy_number("attention.layer_norm_epsilon", {"layer_norm_eps", "norm_eps"});
}

// q_layernorm.norms.3 is the norm of head 3: they become rows of one tensor, as experts do.
std::string rename_stablelm_tensor(const Conversion& /*conversion*/, std::string_view name) {
  constexpr std::string_view kNorms = "_layernorm.norms.";
  const size_t at = name.find(kNorms);
  if (at == std::string_view::npos) return {};
  return fmt::format("{}_layernorm.experts.{}", name.substr(0, at), name.substr(at + kNorms.size()));
}

void set_nemotron_keys(Conversion& conversion) {
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.copy_number("attention.layer_norm_epsilon",
                         {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"});
  conversion.set("rope.dimension_count", conversion.turned(0.5));
  const ModelConfig& rope = conversion.rope().full;
  const bool scaled = rope.has({"factor"});
  conversion.set("rope.scaling.type", scaled ? "linear" : "none");
  if (scaled) conversion.set("rope.scaling.factor", rope.number({"factor"}));
  conversion.metadata().set("tokenizer.ggml.unknown_token_id", int64_t{1});
}

bool change_nemotron_tensor(Conversion& /*conversion*/, SourceTensor& source) {
  if (source.part.ends_with("norm") && source.suffix == ".weight") add_one(source);
  return false;
}

void set_hunyuan_keys(Conversion& conversion) {
  const ModelConfig& rope = conversion.rope().full;
  if (conversion.rope().type() != "dynamic" && conversion.rope().type() != "xdrope") return;
  // Scaling by alpha is a larger base; contexts that configs give are too small.
  const auto length = static_cast<double>(conversion.head_length());
  const double base = rope.number_or({"rope_theta"}, 10'000.0), alpha = rope.number_or({"alpha"}, 50.0);
  conversion.set("rope.freq_base", base * std::pow(alpha, length / (length - 2.0)));
  conversion.set("rope.scaling.type", "none");
  conversion.set("rope.scaling.factor", 1.0);
  if (conversion.rope().type() != "dynamic") return;
  conversion.set("rope.scaling.original_context_length", int64_t{256 * 1024});
  conversion.set("context_length", int64_t{256 * 1024});
}

bool change_tied_tensor(Conversion& conversion, SourceTensor& source) {
  return source.part == "lm_head" && conversion.config().boolean_or({"tie_word_embeddings"}, false);
}

void set_glm4_keys(Conversion& conversion) { conversion.set("rope.dimension_count", conversion.turned(0.5)); }

// Models that also see have sections in their rope, for which readers want pairs apart instead of neighbours.
bool change_glm4_tensor(Conversion& conversion, SourceTensor& source) {
  const bool turned = source.part == "self_attn.q_proj" || source.part == "self_attn.k_proj";
  if (!turned || !conversion.rope().full.has({"mrope_section"})) return false;
  const int64_t rows = source.shape.size() == 1 ? source.columns() : source.rows->count();
  const int64_t length = conversion.head_length(), half = conversion.turned(0.5) / 2;
  std::vector<int64_t> index;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t i = row % length, head = row - i;
    index.push_back(i < half ? head + 2 * i : i < 2 * half ? head + 2 * (i - half) + 1 : row);
  }
  reorder(source, std::move(index));
  return false;
}

constexpr std::string_view kPhi3Classes[] = {"Phi3ForCausalLM"};
constexpr std::string_view kPhiMoeClasses[] = {"PhiMoEForCausalLM", "PhimoeForCausalLM"};
constexpr std::string_view kOlmo2Classes[] = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"};
constexpr std::string_view kCommandRClasses[] = {"CohereForCausalLM"};
constexpr std::string_view kCohere2Classes[] = {"Cohere2ForCausalLM"};
constexpr std::string_view kExaone4Classes[] = {"Exaone4ForCausalLM"};
constexpr std::string_view kFalconClasses[] = {"FalconForCausalLM", "RWForCausalLM"};
constexpr std::string_view kGpt2Classes[] = {"GPT2LMHeadModel"};
constexpr std::string_view kStarcoder2Classes[] = {"Starcoder2ForCausalLM"};
constexpr std::string_view kStableLmClasses[] = {"StableLmForCausalLM", "StableLMEpochForCausalLM"};
constexpr std::string_view kNemotronClasses[] = {"NemotronForCausalLM"};
constexpr std::string_view kHunyuanClasses[] = {"HunYuanDenseV1ForCausalLM"};
constexpr std::string_view kSeedOssClasses[] = {"SeedOssForCausalLM"};
constexpr std::string_view kGlm4Classes[] = {"Glm4ForCausalLM", "Glm4vForConditionalGeneration"};

constexpr NameRow kPostNormNames[] = {{"post_attention_layernorm", "post_attention_norm"}};
constexpr NameRow kGlm4Names[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                                  {"post_mlp_layernorm", "post_ffw_norm"}};
constexpr NameRow kStableLmNames[] = {{"self_attn.q_layernorm.experts.@", "attn_q_norm"},
                                      {"self_attn.k_layernorm.experts.@", "attn_k_norm"}};

constexpr Family kClassicFamilies[] = {
    {.classes = kPhi3Classes, .architecture = "phi3", .keys = set_phi3_keys},
    {.classes = kPhiMoeClasses, .architecture = "phimoe", .keys = set_phi3_keys},
    {.classes = kOlmo2Classes, .architecture = "olmo2", .keys = set_olmo2_keys, .names = kPostNormNames},
    {.classes = kCommandRClasses, .architecture = "command-r", .keys = set_command_r_keys},
    {.classes = kCohere2Classes, .architecture = "cohere2", .keys = set_cohere2_keys},
    {.classes = kExaone4Classes,
     .architecture = "exaone4",
     .keys = set_exaone4_keys,
     .names = kPostNormNames,
     .pre_tokenizer = "exaone4"},
    {.classes = kFalconClasses, .architecture = "falcon", .keys = set_falcon_keys, .tensor = change_falcon_tensor},
    {.classes = kGpt2Classes, .architecture = "gpt2", .keys = set_gpt2_keys, .tensor = change_gpt2_tensor},
    {.classes = kStarcoder2Classes, .architecture = "starcoder2"},
    {.classes = kStableLmClasses,
     .architecture = "stablelm",
     .keys = set_stablelm_keys,
     .names = kStableLmNames,
     .pre_tokenizer = "stablelm2",
     .rename = rename_stablelm_tensor},
    {.classes = kNemotronClasses,
     .architecture = "nemotron",
     .keys = set_nemotron_keys,
     .tensor = change_nemotron_tensor},
    {.classes = kHunyuanClasses,
     .architecture = "hunyuan-dense",
     .keys = set_hunyuan_keys,
     .tensor = change_tied_tensor,
     .pre_tokenizer = "hunyuan-dense"},
    {.classes = kSeedOssClasses, .architecture = "seed_oss", .names = kPostNormNames, .pre_tokenizer = "seed-coder"},
    {.classes = kGlm4Classes,
     .architecture = "glm4",
     .keys = set_glm4_keys,
     .tensor = change_glm4_tensor,
     .names = kGlm4Names,
     .pre_tokenizer = "glm4"},
};

}  // namespace

std::span<const Family> classic_families() { return kClassicFamilies; }

}  // namespace cairn::convert
