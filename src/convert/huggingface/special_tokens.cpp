// Special tokens, chat templates and recommended parameters, as metadata.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "base/text/text_file.h"
#include "convert/huggingface/vocabulary.h"

namespace cairn::convert {
namespace {

using Json = nlohmann::json;

struct SpecialKind {
  std::string_view name;  ///< in tokenizer_config.json "bos_token", in config.json "bos_token_id"
  std::string_view key;   ///< below tokenizer.ggml.
};
constexpr SpecialKind kSpecialKinds[] = {
    {"bos", "bos_token_id"},     {"eos", "eos_token_id"},   {"unk", "unknown_token_id"}, {"sep", "seperator_token_id"},
    {"pad", "padding_token_id"}, {"mask", "mask_token_id"}, {"eot", "eot_token_id"},     {"eom", "eom_token_id"},
};

std::string text_of(const Json* value) {  // a text, or an object with it
  if (value != nullptr && value->is_object()) value = find_member(*value, "content");
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

class SpecialTokens {
 public:
  SpecialTokens(const TokenizerFiles& files, const ModelConfig& config, NewMetadata& metadata)
      : files_(files), config_(config), metadata_(metadata) {
    for (const SpecialKind& kind : kSpecialKinds) {
      texts_[kind.name] = text_of(find_member(files.tokenizer_config, fmt::format("{}_token", kind.name)));
    }
    texts_["cls"] = text_of(find_member(files.tokenizer_config, "cls_token"));
  }

  void write() {
    read_post_processor();
    for (const SpecialKind& kind : kSpecialKinds) {
      const Json* add = find_member(files_.tokenizer_config, fmt::format("add_{}_token", kind.name));
      if (add != nullptr && add->is_boolean()) added_[kind.name] = add->get<bool>();
      write_id(kind);
    }
    for (const auto& [name, added] : added_) metadata_.set(fmt::format("tokenizer.ggml.add_{}_token", name), added);
  }

 private:
  // The id of a text among the added tokens; -1 if there is none.
  int64_t id_of(const std::string& text) const {
    const Json* tokens = find_member(files_.tokenizer, "added_tokens");
    if (text.empty() || tokens == nullptr || !tokens->is_array()) return -1;
    for (const auto& token : *tokens) {
      const Json* id = find_member(token, "id");
      if (text_of(&token) == text && id != nullptr && id->is_number_unsigned()) return id->get<int64_t>();
    }
    return -1;
  }

  void write_id(const SpecialKind& kind) {
    int64_t id = id_of(texts_[kind.name]);
    if (kind.name == "eos" && config_.has({"eod_token_id"})) id = config_.integer({"eod_token_id"});  // of Hunyuan
    const std::string name = fmt::format("{}_token_id", kind.name);
    const Json* given = config_.find({name});
    if (given == nullptr) given = find_member(files_.generation, name);
    if (given != nullptr && given->is_array() && !given->empty()) given = &(*given)[0];  // several ends: the first
    if (id < 0 && given != nullptr && given->is_number_unsigned()) id = given->get<int64_t>();
    if (id >= 0) metadata_.set(fmt::format("tokenizer.ggml.{}", kind.key), id);
  }

  // Which special tokens are put around a text.
  void read_post_processor() {
    const Json* processor = find_member(files_.tokenizer, "post_processor");
    if (processor == nullptr) return;
    if (texts_["bos"].empty()) texts_["bos"] = texts_["cls"];
    if (texts_["eos"].empty()) texts_["eos"] = texts_["sep"];
    const Json* steps = find_member(*processor, "processors");
    if (steps == nullptr || !steps->is_array()) return read_step(*processor);
    for (const auto& step : *steps) read_step(step);
  }

  void read_step(const Json& step) {
    const std::string type = text_of(find_member(step, "type"));
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      added_["bos"] = added_["eos"] = added_["sep"] = true;
      if (texts_["sep"].empty()) texts_["sep"] = texts_["eos"];
    } else if (type == "TemplateProcessing") {
      read_template(step);
    }
  }

  static std::string special_of(const Json& piece) {
    const Json* token = find_member(piece, "SpecialToken");
    return token == nullptr ? std::string() : text_of(find_member(*token, "id"));
  }

  void read_template(const Json& step) {
    const Json* single = find_member(step, "single");
    if (single == nullptr || !single->is_array() || single->size() < 2) return;
    const std::string first = special_of(single->front()), last = special_of(single->back());
    if (!first.empty()) {
      if (texts_["bos"].empty()) texts_["bos"] = first;
      added_["bos"] = first == texts_["bos"] || first == texts_["cls"];
    }
    if (!last.empty()) {
      if (last != texts_["eos"]) {  // what the config calls the end of a text is that of a turn
        texts_["eot"] = texts_["eos"];
        texts_["eos"] = last;
      }
      added_["eos"] = true;
    }
    read_pair(step, first, last);
  }

  // Whether there is a separator between the two texts of a pair.
  void read_pair(const Json& step, const std::string& first, const std::string& last) {
    const Json* pair = find_member(step, "pair");
    if (pair == nullptr || !pair->is_array()) return;
    size_t begin = 0, end = pair->size();
    if (begin < end && !first.empty() && special_of((*pair)[begin]) == first) ++begin;
    if (begin < end && !last.empty() && special_of((*pair)[end - 1]) == last) --end;
    if (end < begin + 3) return;
    const std::string between = special_of((*pair)[begin + 1]);
    const auto separates = [&](const std::string& text) {
      return !text.empty() && (text == texts_["sep"] || text == texts_["eos"]);
    };
    const bool second = end == begin + 4 && separates(special_of((*pair)[begin + 2]));
    added_["sep"] = (separates(between) && last.empty()) || second;
    if (added_["sep"] && texts_["sep"].empty()) texts_["sep"] = texts_["eos"];
  }

  const TokenizerFiles& files_;
  const ModelConfig& config_;
  NewMetadata& metadata_;
  std::map<std::string_view, std::string> texts_;
  std::map<std::string_view, bool> added_;
};

// Lower case and accents, as the normalizer of tokenizer.json treats them.
void set_normalizer(const Json* normalizer, NewMetadata& metadata, int depth = 0) {
  constexpr int kDepthMax = 8;
  if (normalizer == nullptr || !normalizer->is_object() || depth > kDepthMax) return;
  const std::string type = text_of(find_member(*normalizer, "type"));
  const auto copy = [&](std::string_view name, std::string_view key) {
    const Json* value = find_member(*normalizer, name);
    if (value != nullptr && value->is_boolean()) metadata.set(key, value->get<bool>());
  };
  if (type == "Lowercase") metadata.set("tokenizer.ggml.normalizer.lowercase", true);
  if (type == "StripAccents") metadata.set("tokenizer.ggml.normalizer.strip_accents", true);
  if (type == "BertNormalizer") {
    copy("lowercase", "tokenizer.ggml.normalizer.lowercase");
    copy("strip_accents", "tokenizer.ggml.normalizer.strip_accents");
  }
  if (const Json* steps = find_member(*normalizer, "normalizers"); steps != nullptr && steps->is_array()) {
    for (const auto& step : *steps) set_normalizer(&step, metadata, depth + 1);
  }
}

// Templates by name; "default" is the chat's.
using Templates = std::map<std::string, std::string>;

void add_listed(const Json* templates, Templates& found) {
  if (templates == nullptr) return;
  if (templates->is_string()) found.emplace("default", templates->get<std::string>());
  if (templates->is_array()) {
    for (const auto& each : *templates)
      found.emplace(text_of(find_member(each, "name")), text_of(find_member(each, "template")));
  }
}

Result<Templates> read_templates(const TokenizerFiles& files) {
  Templates templates;
  std::error_code missing;
  const auto read = [&](const std::filesystem::path& path, std::string name) -> Result<void> {
    if (!std::filesystem::exists(path, missing)) return {};
    CAIRN_TRY(std::string text, read_text_file(path.string(), path.string()));
    templates.emplace(std::move(name), std::move(text));
    return {};
  };
  CAIRN_TRY_VOID(read(files.folder / "chat_template.jinja", "default"));
  std::set<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(files.folder / "additional_chat_templates", missing)) {
    if (entry.path().extension() == ".jinja") others.insert(entry.path());
  }
  for (const auto& path : others) CAIRN_TRY_VOID(read(path, path.stem().string()));
  add_listed(find_member(files.tokenizer_config, "chat_template"), templates);
  CAIRN_TRY(const Json older, read_json_file_if_there(files.folder / "chat_template.json", kJsonFileBytesMax));
  add_listed(find_member(older, "chat_template"), templates);
  templates.erase("");
  return templates;
}

Result<void> set_templates(const TokenizerFiles& files, NewMetadata& metadata) {
  CAIRN_TRY(const Templates templates, read_templates(files));
  std::vector<std::string> names;
  for (const auto& [name, text] : templates) {
    if (name == "default") {
      metadata.set("tokenizer.chat_template", text);
    } else {
      metadata.set("tokenizer.chat_template." + name, text);
      names.push_back(name);
    }
  }
  if (!names.empty()) metadata.set("tokenizer.chat_templates", std::move(names));
  return {};
}

// What generation_config.json recommends for sampling.
void set_sampling(const Json& generation, NewMetadata& metadata) {
  struct Parameter {
    const char* name;
    const char* key;
  };
  constexpr Parameter kNumbers[] = {{"temperature", "general.sampling.temp"},
                                    {"top_p", "general.sampling.top_p"},
                                    {"min_p", "general.sampling.min_p"},
                                    {"repetition_penalty", "general.sampling.penalty_repeat"}};
  for (const auto& [name, key] : kNumbers) {
    const Json* value = find_member(generation, name);
    if (value != nullptr && value->is_number()) metadata.set(key, value->get<double>());
  }
  const Json* top_k = find_member(generation, "top_k");
  if (top_k != nullptr && top_k->is_number_unsigned() && top_k->get<uint64_t>() <= INT32_MAX)
    metadata.set("general.sampling.top_k", top_k->get<int64_t>());
}

}  // namespace

Result<void> set_vocabulary_keys(const NewVocabulary& vocabulary, const TokenizerFiles& files, const Family& /*family*/,
                                 const ModelConfig& config, NewMetadata& metadata) {
  metadata.set("tokenizer.ggml.model", vocabulary.model);
  if (!vocabulary.pre.empty()) metadata.set("tokenizer.ggml.pre", vocabulary.pre);
  metadata.set("tokenizer.ggml.tokens", vocabulary.tokens);
  if (!vocabulary.scores.empty()) metadata.set("tokenizer.ggml.scores", vocabulary.scores);
  std::vector<int64_t> kinds;
  for (const TokenKind kind : vocabulary.kinds) kinds.push_back(static_cast<int64_t>(kind));
  metadata.set("tokenizer.ggml.token_type", std::move(kinds));
  if (!vocabulary.merges.empty()) metadata.set("tokenizer.ggml.merges", vocabulary.merges);
  if (!vocabulary.charsmap.empty()) metadata.set("tokenizer.ggml.precompiled_charsmap", vocabulary.charsmap);
  if (vocabulary.space_prefix) metadata.set("tokenizer.ggml.add_space_prefix", *vocabulary.space_prefix);
  if (vocabulary.remove_extra_spaces)
    metadata.set("tokenizer.ggml.remove_extra_whitespaces", *vocabulary.remove_extra_spaces);
  const Json* prefix = find_member(files.tokenizer_config, "add_prefix_space");
  if (vocabulary.model == "llama" && prefix != nullptr && prefix->is_boolean())
    metadata.set("tokenizer.ggml.add_space_prefix", prefix->get<bool>());
  set_normalizer(find_member(files.tokenizer, "normalizer"), metadata);
  SpecialTokens(files, config, metadata).write();
  set_sampling(files.generation, metadata);
  return set_templates(files, metadata);
}

}  // namespace cairn::convert
