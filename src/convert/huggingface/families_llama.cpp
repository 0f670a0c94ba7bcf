// Llama and its like: norms before attention and feed-forward, SwiGLU, ropes that turn neighbours.
#include "convert/huggingface/family.h"

#include <algorithm>

namespace cairn::convert {
namespace {

void set_llama_keys(Conversion& conversion) {
  conversion.copy_integer("vocab_size", {"vocab_size"});
  conversion.set("rope.dimension_count", conversion.head_length());
  add_llama3_factors(conversion, 8.0);
}

bool change_llama_tensor(Conversion& conversion, SourceTensor& source) {
  interleave_queries_and_keys(conversion, source);
  return false;
}

void set_mistral3_keys(Conversion& conversion) {
  set_llama_keys(conversion);
  const ModelConfig& rope = conversion.rope().full;
  if (rope.has({"mscale_all_dim"})) conversion.set("rope.scaling.yarn_log_multiplier", rope.number({"mscale_all_dim"}));
  if (rope.has({"llama_4_scaling_beta"}))
    conversion.set("attention.temperature_scale", rope.number({"llama_4_scaling_beta"}));
}

void set_granite_keys(Conversion& conversion) {
  set_llama_keys(conversion);
  conversion.copy_number("attention.scale", {"attention_multiplier"});
  conversion.copy_number("embedding_scale", {"embedding_multiplier"});
  conversion.copy_number("residual_scale", {"residual_multiplier"});
  conversion.copy_number("logit_scale", {"logits_scaling"});
  conversion.copy_integer("expert_shared_feed_forward_length", {"shared_intermediate_size"});
}

bool change_granite_tensor(Conversion& conversion, SourceTensor& source) {
  interleave_queries_and_keys(conversion, source);
  if (source.part == "block_sparse_moe.input_linear") {
    add_gate_and_up(conversion, source, "ffn_gate_exps.weight", "ffn_up_exps.weight");
    return true;
  }
  const bool experts = conversion.config().integer_or({"num_local_experts"}, 0) > 0;
  if (source.part == "shared_mlp.input_linear") {
    add_gate_and_up(conversion, source, experts ? "ffn_gate_shexp.weight" : "ffn_gate.weight",
                    experts ? "ffn_up_shexp.weight" : "ffn_up.weight");
    return true;
  }
  if (source.part == "shared_mlp.output_linear") {
    conversion.add(source, experts ? "ffn_down_shexp.weight" : "ffn_down.weight");
    return true;
  }
  return false;
}

void set_ernie_keys(Conversion& conversion) {
  if (conversion.architecture() != "ernie4_5-moe") return;
  const ModelConfig& config = conversion.config();
  conversion.set("expert_count", config.integer({"moe_num_experts"}));
  conversion.set("expert_used_count", config.integer({"moe_k"}));
  conversion.set("interleave_moe_layer_step", config.integer({"moe_layer_interval"}));
  conversion.set("leading_dense_block_count", config.integer({"moe_layer_start_index"}));
  conversion.copy_integer("expert_feed_forward_length", {"moe_intermediate_size"});
  const int64_t shared = config.integer_or({"moe_num_shared_experts"}, 0);
  conversion.set("expert_shared_count", shared);
  if (shared > 0) {
    conversion.set("expert_shared_feed_forward_length", shared * config.integer({"moe_intermediate_size"}));
  }
}

bool change_ernie_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part.starts_with("mtp_")) return true;  // layers that predict further tokens are not run
  if (source.part == "mlp.up_gate_proj") {
    add_gate_and_up(conversion, source, "ffn_gate.weight", "ffn_up.weight");
    return true;
  }
  return false;
}

void set_smollm3_keys(Conversion& conversion) { set_llama_keys(conversion); }

constexpr std::string_view kLlamaClasses[] = {"LlamaForCausalLM",   "LLaMAForCausalLM", "MistralForCausalLM",
                                              "MixtralForCausalLM", "LlamaModel",       "InternLM3ForCausalLM"};
constexpr std::string_view kMistral3Classes[] = {"Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"};
constexpr std::string_view kSmolLm3Classes[] = {"SmolLM3ForCausalLM"};
constexpr std::string_view kGraniteClasses[] = {"GraniteForCausalLM"};
constexpr std::string_view kGraniteMoeClasses[] = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"};
constexpr std::string_view kErnieClasses[] = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"};
constexpr std::string_view kErnieMoeClasses[] = {"Ernie4_5_MoeForCausalLM"};

constexpr NameRow kGraniteNames[] = {{"block_sparse_moe.output_linear", "ffn_down_exps"}};

constexpr Family kLlamaFamilies[] = {
    {.classes = kLlamaClasses, .architecture = "llama", .keys = set_llama_keys, .tensor = change_llama_tensor},
    {.classes = kMistral3Classes, .architecture = "mistral3", .keys = set_mistral3_keys, .tensor = change_llama_tensor},
    {.classes = kSmolLm3Classes, .architecture = "smollm3", .keys = set_smollm3_keys, .tensor = change_llama_tensor},
    {.classes = kGraniteClasses, .architecture = "granite", .keys = set_granite_keys, .tensor = change_granite_tensor},
    {.classes = kGraniteMoeClasses,
     .architecture = "granitemoe",
     .keys = set_granite_keys,
     .tensor = change_granite_tensor,
     .names = kGraniteNames},
    {.classes = kErnieClasses, .architecture = "ernie4_5", .tensor = change_ernie_tensor},
    {.classes = kErnieMoeClasses,
     .architecture = "ernie4_5-moe",
     .keys = set_ernie_keys,
     .tensor = change_ernie_tensor},
};

}  // namespace

std::span<const Family> llama_families() { return kLlamaFamilies; }

const Family& granite_family() { return *std::ranges::find(kLlamaFamilies, "granite", &Family::architecture); }

}  // namespace cairn::convert
