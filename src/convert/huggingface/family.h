/// The families of models that can be converted: which keys and tensors each has in GGUF files. Each file
/// families_*.cpp has the rules of some of them, and its rows in a table.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "convert/huggingface/conversion.h"
#include "convert/huggingface/tensor_names.h"

namespace cairn::convert {

struct Family {
  /// The names under "architectures" in config.json.
  std::span<const std::string_view> classes;
  std::string_view architecture;  ///< of GGUF
  /// Sets the keys that the family has besides those of all (set_common_keys); null: none.
  void (*keys)(Conversion& conversion) = nullptr;
  /// Changes a tensor before it gets its name, or adds what is made of it and returns true; null: nothing to do.
  bool (*tensor)(Conversion& conversion, SourceTensor& source) = nullptr;
  std::span<const NameRow> names = {};  ///< that differ from those of most families
  /// The name of the pre-tokenizer, where several names mean the same rules; empty: the usual one.
  std::string_view pre_tokenizer = {};
  /// Chooses another architecture by the config; null: none.
  std::string_view (*choose)(const ModelConfig& config) = nullptr;
  /// How many layers after the others predict further tokens; null: none.
  int64_t (*next_layers)(const Conversion& conversion) = nullptr;
  /// Another name for a tensor of the checkpoint, before it is taken apart; empty: its own. null: all keep theirs.
  std::string (*rename)(const Conversion& conversion, std::string_view name) = nullptr;
};

std::span<const Family> llama_families();
std::span<const Family> qwen_families();
std::span<const Family> gemma_families();
std::span<const Family> latent_families();
std::span<const Family> classic_families();
std::span<const Family> expert_families();
std::span<const Family> recurrent_families();
std::span<const Family> encoder_families();

/// The rules of Granite, which its hybrids share.
const Family& granite_family();

/// The family of a config. Error: kUnsupported (names the class, and what can be converted).
Result<const Family*> family_of(const ModelConfig& config);
/// "llama (LlamaForCausalLM, ...), ...", for help and messages.
std::string family_names();

/// The keys of all families: sizes, rope, norms, experts.
void set_common_keys(Conversion& conversion);

// What several families do with a tensor.

/// The rows of queries or keys in the order for ropes that turn neighbours: of each head, halves become neighbours.
void interleave_heads(SourceTensor& source, int64_t heads);
/// Does that for q_proj and k_proj.
void interleave_queries_and_keys(const Conversion& conversion, SourceTensor& source);
/// Adds one to the weights of a norm, which the checkpoint has less one.
void add_one(SourceTensor& source);
/// Changes A_log into what files have: -exp(A_log).
void negative_exponential(SourceTensor& source);
/// The row (or, of a vector, the element) index[i] of the checkpoint becomes row i.
void reorder(SourceTensor& source, std::vector<int64_t> index);
/// Drops the dimensions of size 1 of the taps of a convolution: [channels, 1, taps].
void squeeze(SourceTensor& source);
/// Splits matrices (or vectors) whose first half is the gate and whose second half is "up".
void add_gate_and_up(Conversion& conversion, const SourceTensor& source, std::string_view gate, std::string_view up);
/// The factors of a rope of type llama3, as rope_freqs.weight; nothing for other types. Source: transformers'
/// definition of rope type "llama3".
void add_llama3_factors(Conversion& conversion, double factor_if_missing);
/// For each layer, whether its type is `name`.
std::vector<bool> layers_of_type(const Conversion& conversion, std::string_view name);
/// pooling_type, from the modules of sentence-transformers.
void set_pooling(Conversion& conversion);

}  // namespace cairn::convert
