// Encoders: BERT and what came of it.
#include <fmt/format.h>

#include <algorithm>

#include "convert/huggingface/family.h"

namespace cairn::convert {
namespace {

// The labels of a classifier, in order of their numbers; empty for the two that transformers writes for want of any.
std::vector<std::string> output_labels(const ModelConfig& config) {
  const auto* labels = config.find({"id2label"});
  std::vector<std::pair<int64_t, std::string>> numbered;
  if (labels == nullptr || !labels->is_object()) return {};
  for (const auto& [number, label] : labels->items()) {
    if (label.is_string()) numbered.emplace_back(std::atoll(number.c_str()), label.get<std::string>());
  }
  std::ranges::sort(numbered);
  std::vector<std::string> names;
  for (auto& [number, label] : numbered) names.push_back(std::move(label));
  if (names.size() == 2 && names[0] == "LABEL_0") names.clear();
  return names;
}

bool is_classifier(const ModelConfig& config) {
  return config.texts({"architectures"})[0].ends_with("ForSequenceClassification");
}

void set_bert_keys(Conversion& conversion) {
  conversion.set("attention.causal", false);
  conversion.metadata().set("tokenizer.ggml.token_type_count", conversion.config().integer_or({"type_vocab_size"}, 1));
  set_pooling(conversion);
  if (auto labels = output_labels(conversion.config()); !labels.empty() && is_classifier(conversion.config())) {
    conversion.set("classifier.output_labels", std::move(labels));
  }
}

bool change_bert_tensor(Conversion& /*conversion*/, SourceTensor& source) {
  constexpr std::string_view kHeads[] = {"pooler.", "cls.predictions.", "cls.seq_relationship.", "vocab_", "lm_head"};
  return std::ranges::any_of(kHeads, [&](std::string_view head) { return source.part.starts_with(head); });
}

void set_distilbert_keys(Conversion& conversion) {
  set_bert_keys(conversion);
  conversion.set("attention.layer_norm_epsilon", 1e-12);
}

// Positions of RoBERTa begin behind the padding token's.
int64_t first_position(const ModelConfig& config) {
  return config.has({"pad_token_id"}) ? config.integer({"pad_token_id"}) + 1 : 0;
}

void set_roberta_keys(Conversion& conversion) {
  set_bert_keys(conversion);
  const ModelConfig& config = conversion.config();
  conversion.set("context_length",
                 std::max<int64_t>(0, config.integer({"max_position_embeddings"}) - first_position(config)));
}

bool change_roberta_tensor(Conversion& conversion, SourceTensor& source) {
  const int64_t first = first_position(conversion.config());
  if (source.part == "embeddings.position_embeddings" && first < source.rows->count()) {
    source.rows = slice(source.rows, first, source.rows->count() - first);
    source.shape[0] -= first;
  }
  return change_bert_tensor(conversion, source);
}

void set_jina3_keys(Conversion& conversion) {
  set_roberta_keys(conversion);
  conversion.set("rope.freq_base", conversion.config().number_or({"rotary_emb_base"}, 20'000.0));
}

// The adapters of tasks are left out; what they adapt has ".parametrizations" in its name.
std::string rename_jina3_tensor(const Conversion& /*conversion*/, std::string_view name) {
  constexpr std::string_view kMarked = ".parametrizations.";
  const size_t at = name.find(kMarked);
  if (at == std::string_view::npos) return {};
  std::string plain = fmt::format("{}.{}", name.substr(0, at), name.substr(at + kMarked.size()));
  if (plain.ends_with(".original")) plain.resize(plain.size() - std::string_view(".original").size());
  return plain;
}

bool change_jina3_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part.ends_with(".lora_A") || source.part.ends_with(".lora_B")) return true;
  return change_roberta_tensor(conversion, source);
}

std::string_view choose_xlm_roberta(const ModelConfig& config) {
  return config.has({"lora_adaptations"}) ? "jina-bert-v3" : "bert";
}

void set_xlm_roberta_keys(Conversion& conversion) {
  conversion.architecture() == "jina-bert-v3" ? set_jina3_keys(conversion) : set_roberta_keys(conversion);
}

std::string_view choose_nomic(const ModelConfig& config) {
  return config.integer_or({"moe_every_n_layers"}, 0) > 0 ? "nomic-bert-moe" : "nomic-bert";
}

void set_nomic_keys(Conversion& conversion) {
  set_bert_keys(conversion);
  const ModelConfig& config = conversion.config();
  // Configs give more positions than the models were trained on: 2048 for v1 and v1.5, 512 for v2.
  const int64_t positions = config.integer({"n_positions"});
  if (config.integer_or({"max_trained_positions"}, 2048) == 2048) {
    conversion.set("context_length", positions == 8192 ? int64_t{2048} : positions == 2048 ? int64_t{512} : positions);
  }
  if (conversion.architecture() != "nomic-bert-moe") return;
  conversion.copy_integer("moe_every_n_layers", {"moe_every_n_layers"});
  conversion.set("expert_used_count", config.integer({"moe_top_k"}));
}

bool change_nomic_tensor(Conversion& conversion, SourceTensor& source) {
  if (source.part == "mlp.experts") return true;  // a bias that is not used
  const bool up = source.part == "mlp.experts.mlp.w1", down = source.part == "mlp.experts.mlp.w2";
  if (!up && !down) return change_bert_tensor(conversion, source);
  const int64_t length = conversion.config().integer({"n_inner"});
  if (length < 1 || source.rows->count() % length != 0) {
    conversion.config().refuse(Code::kCorruptFile, fmt::format("tensor {} has {} rows, no multiple of n_inner {}",
                                                               source.name, source.rows->count(), length));
    return true;
  }
  if (up) {
    conversion.add(source, "ffn_up_exps.weight", source.rows, length);
  } else {
    conversion.add(source, "ffn_down_exps.weight", transposed(source.rows, length), source.columns());
  }
  return true;
}

void set_jina2_keys(Conversion& conversion) { set_bert_keys(conversion); }

void set_modern_bert_keys(Conversion& conversion) {
  set_bert_keys(conversion);
  conversion.metadata().erase("tokenizer.ggml.token_type_count");
  conversion.metadata().set("tokenizer.ggml.add_bos_token", true);
  conversion.metadata().set("tokenizer.ggml.add_eos_token", true);
  conversion.metadata().set("tokenizer.ggml.add_sep_token", true);
  conversion.set("attention.sliding_window", conversion.config().integer({"local_attention"}));
  conversion.copy_integer("attention.sliding_window_pattern", {"global_attn_every_n_layers"});
  conversion.set("rope.scaling.type", "none");
  conversion.copy_integer("vocab_size", {"vocab_size"});
  if (conversion.config().has({"hidden_activation"}))
    conversion.set("hidden_activation", conversion.config().text_or({"hidden_activation"}, ""));
}

bool change_modern_bert_tensor(Conversion& conversion, SourceTensor& source) {
  const bool head = source.part.starts_with("head.") || source.name.starts_with("decoder.");
  return (head && !is_classifier(conversion.config())) || change_bert_tensor(conversion, source);
}

void set_eurobert_keys(Conversion& conversion) {
  conversion.metadata().set("tokenizer.ggml.add_bos_token", false);
  conversion.set("attention.causal", false);
  conversion.set("rope.scaling.type", "none");
  set_pooling(conversion);
}

bool change_eurobert_tensor(Conversion& /*conversion*/, SourceTensor& source) { return source.part == "lm_head"; }

constexpr std::string_view kBertClasses[] = {"BertModel", "BertForMaskedLM", "BertForSequenceClassification",
                                             "CamembertModel"};
constexpr std::string_view kDistilBertClasses[] = {"DistilBertModel", "DistilBertForMaskedLM"};
constexpr std::string_view kRobertaClasses[] = {"RobertaModel", "RobertaForSequenceClassification"};
constexpr std::string_view kXlmRobertaClasses[] = {"XLMRobertaModel", "XLMRobertaForSequenceClassification"};
constexpr std::string_view kNomicClasses[] = {"NomicBertModel"};
constexpr std::string_view kJina2Classes[] = {"JinaBertModel", "JinaBertForMaskedLM"};
constexpr std::string_view kModernBertClasses[] = {"ModernBertModel", "ModernBertForMaskedLM",
                                                   "ModernBertForSequenceClassification"};
constexpr std::string_view kEuroBertClasses[] = {"EuroBertModel", "EuroBertForMaskedLM"};

constexpr NameRow kXlmRobertaNames[] = {{"mixer.Wqkv", "attn_qkv"}, {"mixer.out_proj", "attn_output"}};
constexpr NameRow kNomicNames[] = {{"mlp.router.layer", "ffn_gate_inp"}};
constexpr NameRow kJina2Names[] = {
    {"mlp.gated_layers", "ffn_up"},
    {"mlp.up_gated_layer", "ffn_up"},
    {"mlp.wo", "ffn_down"},
    {"mlp.down_layer", "ffn_down"},
    {"mlp.layernorm", "layer_output_norm"},
    {"layer_norm_1", "attn_norm_2"},
    {"layer_norm_2", "layer_output_norm"},
    {"attention.self.layer_norm_q", "attn_q_norm"},
    {"attention.self.layer_norm_k", "attn_k_norm"},
};
constexpr NameRow kModernBertNames[] = {{"head.dense", "cls"}, {"head.norm", "cls.norm"}};

constexpr Family kEncoderFamilies[] = {
    {.classes = kBertClasses, .architecture = "bert", .keys = set_bert_keys, .tensor = change_bert_tensor},
    {.classes = kDistilBertClasses, .architecture = "bert", .keys = set_distilbert_keys, .tensor = change_bert_tensor},
    {.classes = kRobertaClasses,
     .architecture = "bert",
     .keys = set_roberta_keys,
     .tensor = change_roberta_tensor,
     .pre_tokenizer = "roberta-bpe"},
    {.classes = kXlmRobertaClasses,
     .architecture = "bert",
     .keys = set_xlm_roberta_keys,
     .tensor = change_jina3_tensor,
     .names = kXlmRobertaNames,
     .choose = choose_xlm_roberta,
     .rename = rename_jina3_tensor},
    {.classes = kNomicClasses,
     .architecture = "nomic-bert",
     .keys = set_nomic_keys,
     .tensor = change_nomic_tensor,
     .names = kNomicNames,
     .choose = choose_nomic},
    {.classes = kJina2Classes,
     .architecture = "jina-bert-v2",
     .keys = set_jina2_keys,
     .tensor = change_bert_tensor,
     .names = kJina2Names},
    {.classes = kModernBertClasses,
     .architecture = "modern-bert",
     .keys = set_modern_bert_keys,
     .tensor = change_modern_bert_tensor,
     .names = kModernBertNames,
     .pre_tokenizer = "modern-bert"},
    {.classes = kEuroBertClasses,
     .architecture = "eurobert",
     .keys = set_eurobert_keys,
     .tensor = change_eurobert_tensor},
};

}  // namespace

std::span<const Family> encoder_families() { return kEncoderFamilies; }

}  // namespace cairn::convert
