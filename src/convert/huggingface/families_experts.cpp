// Decoders with experts that are no variant of a dense family.
#include <fmt/format.h>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

void set_gpt_oss_keys(Conversion& conversion) {
  conversion.set("attention.sliding_window", conversion.config().integer({"sliding_window"}));
  conversion.set("expert_feed_forward_length", conversion.config().integer({"intermediate_size"}));
}

// Rows (or elements) 0, 2, 4 ... are the gate's, the others those of "up".
void add_alternating(Conversion& conversion, const SourceTensor& source, RowsPtr rows, int64_t both,
                     std::string_view suffix) {
  if (both % 2 != 0) {
    conversion.config().refuse(Code::kCorruptFile,
                               fmt::format("tensor {} has {} rows for gate and up together", source.name, both));
    return;
  }
  for (const int64_t first : {0, 1}) {
    std::vector<int64_t> index;
    const bool bias = suffix == ".bias";
    for (int64_t i = first; i < (bias ? both : rows->count()); i += 2) index.push_back(i);
    const std::string name = fmt::format("{}{}", first == 0 ? "ffn_gate_exps" : "ffn_up_exps", suffix);
    if (bias) {
      conversion.add(source, name, gathered(rows, std::move(index)), rows->count());
    } else {
      conversion.add(source, name, selected(rows, std::move(index)), both / 2);
    }
  }
}

bool change_gpt_oss_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "mlp.experts.gate_up_proj_bias") {
    add_alternating(conversion, source, source.rows, source.columns(), ".bias");
    return true;
  }
  if (source.part == "mlp.experts.down_proj_bias") {
    conversion.add(source, "ffn_down_exps.bias");
    return true;
  }
  const bool up = source.part == "mlp.experts.gate_up_proj", down = source.part == "mlp.experts.down_proj";
  if (!up && !down) return false;
  // MXFP4 has outputs as rows; as floats, inputs are rows.
  const bool packed = source.rows->blocks() == TensorType::kMXFP4;
  const RowsPtr rows = packed ? source.rows : transposed(source.rows, source.matrix_rows());
  const int64_t outputs = packed ? source.matrix_rows() : source.columns();
  if (up) {
    add_alternating(conversion, source, rows, outputs, ".weight");
  } else {
    conversion.add(source, "ffn_down_exps.weight", rows, outputs);
  }
  return true;
}

void set_olmoe_keys(Conversion& conversion) { conversion.set("attention.layer_norm_rms_epsilon", 1e-5); }

void set_glm4moe_keys(Conversion& conversion) {
  conversion.set("rope.dimension_count", conversion.turned(0.5));
  conversion.copy_integer("expert_feed_forward_length", {"moe_intermediate_size"});
  conversion.copy_integer("expert_shared_count", {"n_shared_experts"});
  conversion.copy_integer("leading_dense_block_count", {"first_k_dense_replace"});
  conversion.set("expert_gating_func", int64_t{2});  // sigmoid
  conversion.copy_number("expert_weights_scale", {"routed_scaling_factor"});
  conversion.copy_boolean("expert_weights_norm", {"norm_topk_prob"});
  conversion.set("nextn_predict_layers", conversion.next_layers());
}

int64_t count_glm_next_layers(const Conversion& conversion) {
  return conversion.config().integer_or({"num_nextn_predict_layers"}, 0);
}

void set_minimax_keys(Conversion& conversion) {
  conversion.set("expert_feed_forward_length", conversion.config().integer({"intermediate_size"}));
  conversion.set("rope.dimension_count", conversion.config().integer({"rotary_dim"}));
}

void set_llama4_keys(Conversion& conversion) {
  const ModelConfig& config = conversion.config();
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.set("rope.dimension_count", conversion.head_length());
  add_llama3_factors(conversion, 8.0);
  conversion.set("interleave_moe_layer_step", config.integer({"interleave_moe_layer_step"}));
  conversion.set("expert_feed_forward_length", config.integer({"intermediate_size"}));
  conversion.set("feed_forward_length", config.integer({"intermediate_size_mlp"}));
}

bool change_llama4_tensor(Conversion& conversion, SourceTensor& source) {
  const bool up = source.part == "feed_forward.experts.gate_up_proj",
             down = source.part == "feed_forward.experts.down_proj";
  if (!up && !down) return false;
  SourceTensor turned = source;  // inputs are rows there
  turned.rows = transposed(source.rows, source.matrix_rows());
  std::swap(turned.shape[turned.shape.size() - 1], turned.shape[turned.shape.size() - 2]);
  if (up) {
    add_gate_and_up(conversion, turned, "ffn_gate_exps.weight", "ffn_up_exps.weight");
  } else {
    conversion.add(turned, "ffn_down_exps.weight");
  }
  return true;
}

constexpr std::string_view kGptOssClasses[] = {"GptOssForCausalLM"};
constexpr std::string_view kOlmoeClasses[] = {"OlmoeForCausalLM"};
constexpr std::string_view kGlm4MoeClasses[] = {"Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"};
constexpr std::string_view kMiniMaxClasses[] = {"MiniMaxM2ForCausalLM"};
constexpr std::string_view kLlama4Classes[] = {"Llama4ForCausalLM", "Llama4ForConditionalGeneration"};

constexpr NameRow kSecondNormNames[] = {{"post_attention_layernorm", "post_attention_norm"}};

constexpr Family kExpertFamilies[] = {
    {.classes = kGptOssClasses,
     .architecture = "gpt-oss",
     .keys = set_gpt_oss_keys,
     .tensor = change_gpt_oss_tensor,
     .names = kSecondNormNames,
     .pre_tokenizer = "gpt-4o"},
    {.classes = kOlmoeClasses, .architecture = "olmoe", .keys = set_olmoe_keys},
    {.classes = kGlm4MoeClasses,
     .architecture = "glm4moe",
     .keys = set_glm4moe_keys,
     .names = kSecondNormNames,
     .pre_tokenizer = "glm4",
     .next_layers = count_glm_next_layers},
    {.classes = kMiniMaxClasses, .architecture = "minimax-m2", .keys = set_minimax_keys, .pre_tokenizer = "minimax-m2"},
    {.classes = kLlama4Classes,
     .architecture = "llama4",
     .keys = set_llama4_keys,
     .tensor = change_llama4_tensor,
     .pre_tokenizer = "llama4"},
};

}  // namespace

std::span<const Family> expert_families() { return kExpertFamilies; }

}  // namespace cairn::convert
