#include "convert/huggingface/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "base/system/mapped_file.h"
#include "base/text/printable.h"

namespace cairn::convert {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr double kAddedScore = -1000.0;

std::string with_spaces(std::string text) {
  for (size_t at = text.find(kSpaceMark); at != std::string::npos; at = text.find(kSpaceMark, at + 1)) {
    text.replace(at, kSpaceMark.size(), " ");
  }
  return text;
}

// Some tokenizers do not mark what are control tokens.
bool looks_like_control(std::string_view text) {
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" ||
         (text.starts_with("<|") && text.ends_with("|>")) || (text.starts_with("<｜") && text.ends_with("｜>")) ||
         (text.starts_with("<unused") && text.ends_with(">"));
}

std::string text_of(const nlohmann::json& object, std::string_view name) {
  const nlohmann::json* value = find_member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}
bool is_true(const nlohmann::json& object, std::string_view name) {
  const nlohmann::json* value = find_member(object, name);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

struct AddedToken {
  int64_t id = 0;
  std::string text;
  bool special = false;

  TokenKind kind() const { return special || looks_like_control(text) ? TokenKind::kControl : TokenKind::kUserDefined; }
};

// Reads them from tokenizer.json and tokenizer_config.json, where later ones win.
std::vector<AddedToken> added_tokens(const TokenizerFiles& files) {
  std::vector<AddedToken> tokens;
  if (const nlohmann::json* list = find_member(files.tokenizer, "added_tokens"); list != nullptr && list->is_array()) {
    for (const auto& each : *list) {
      const nlohmann::json* id = find_member(each, "id");
      if (id != nullptr && id->is_number_unsigned())
        tokens.push_back({id->get<int64_t>(), text_of(each, "content"), is_true(each, "special")});
    }
  }
  if (const nlohmann::json* map = find_member(files.tokenizer_config, "added_tokens_decoder");
      map != nullptr && map->is_object()) {
    for (const auto& [id, each] : map->items()) {
      tokens.push_back({std::atoll(id.c_str()), text_of(each, "content"), is_true(each, "special")});
    }
  }
  return tokens;
}

// Calls use(step) for a step of tokenizer.json, or for each of a sequence.
template <class Use>
void each_step(const nlohmann::json* step, std::string_view list, Use use) {
  if (step == nullptr || !step->is_object()) return;
  const nlohmann::json* steps = find_member(*step, list);
  if (steps == nullptr || !steps->is_array()) return use(*step);
  for (const auto& each : *steps) {
    if (each.is_object()) use(each);
  }
}

NewVocabulary unused_tokens(std::string model, int64_t size) {
  NewVocabulary vocabulary;
  vocabulary.model = std::move(model);
  for (int64_t id = 0; id < size; ++id) vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
  vocabulary.kinds.assign(static_cast<size_t>(size), TokenKind::kUnused);
  return vocabulary;
}

// The tokens of a model that maps texts to ids.
Result<void> set_mapped_tokens(const nlohmann::json& model, NewVocabulary& vocabulary) {
  const nlohmann::json* map = find_member(model, "vocab");
  if (map == nullptr || !map->is_object()) {
    return fail(Code::kCorruptFile, "tokenizer.json: the model has no \"vocab\" of texts and ids");
  }
  for (const auto& [text, id] : map->items()) {
    if (!id.is_number_unsigned()) {
      return fail(Code::kCorruptFile, "tokenizer.json: the token {} has no id", printable(text));
    }
    vocabulary.set(id.get<int64_t>(), text, TokenKind::kNormal, kAddedScore);
  }
  return {};
}

// Merges are texts "a b", or pairs; in these, a space within a part is written as the byte-level alphabet does.
Result<void> set_merges(const nlohmann::json& model, NewVocabulary& vocabulary) {
  const nlohmann::json* list = find_member(model, "merges");
  if (list == nullptr || !list->is_array()) return {};
  for (const auto& merge : *list) {
    if (merge.is_string()) {
      vocabulary.merges.push_back(merge.get<std::string>());
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      return fail(Code::kCorruptFile, "tokenizer.json: merge {} is no pair of texts", vocabulary.merges.size());
    }
    std::string pair;
    for (const auto& part : merge) {
      if (!pair.empty()) pair += ' ';
      for (const char byte : part.get_ref<const std::string&>()) {
        if (byte == ' ') {
          pair += "\u0120";
        } else {
          pair += byte;
        }
      }
    }
    vocabulary.merges.push_back(std::move(pair));
  }
  return {};
}

Result<NewVocabulary> read_byte_level(const TokenizerFiles& files, const nlohmann::json& model, const Family& family,
                                      int64_t size, std::string_view pre_tokenizer) {
  NewVocabulary vocabulary = unused_tokens("gpt2", size);
  CAIRN_TRY_VOID(set_mapped_tokens(model, vocabulary));
  CAIRN_TRY_VOID(set_merges(model, vocabulary));
  for (const AddedToken& added : added_tokens(files)) {
    const TokenKind kind = added.kind();
    vocabulary.set(added.id, kind == TokenKind::kControl ? added.text : with_spaces(added.text), kind, 0);
  }
  vocabulary.pre = pre_tokenizer;
  if (vocabulary.pre.empty()) {
    CAIRN_TRY(vocabulary.pre, pre_tokenizer_name(files.tokenizer, family.pre_tokenizer));
  }
  return vocabulary;
}

bool is_byte_token(std::string_view text) { return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>'); }

// Whether texts get the mark of a word in front.
bool marks_beginning(const TokenizerFiles& files) {
  bool marks = false;
  each_step(find_member(files.tokenizer, "normalizer"), "normalizers",
            [&](const nlohmann::json& step) { marks = marks || text_of(step, "type") == "Prepend"; });
  each_step(find_member(files.tokenizer, "pre_tokenizer"), "pretokenizers", [&](const nlohmann::json& step) {
    marks = marks || (text_of(step, "type") == "Metaspace" && text_of(step, "prepend_scheme") != "never");
  });
  return marks;
}

// A tokenizer of SentencePiece's kind that was made into merges: words begin with a mark, and unknown characters become
// bytes. Gemma 4 keeps the merges; for others, a token's score is the rank of the merge that makes it, which is the
// order in which SentencePiece merges.
Result<NewVocabulary> read_marked_merges(const TokenizerFiles& files, const nlohmann::json& model, const Family& family,
                                         int64_t size) {
  const bool keeps_merges = family.architecture == "gemma4";
  NewVocabulary vocabulary = unused_tokens(keeps_merges ? "gemma4" : "llama", size);
  vocabulary.pre = keeps_merges ? "" : "default";
  vocabulary.scores.assign(static_cast<size_t>(size), -10'000.0);
  CAIRN_TRY_VOID(set_mapped_tokens(model, vocabulary));
  CAIRN_TRY_VOID(set_merges(model, vocabulary));
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_byte_token(vocabulary.tokens[id])) vocabulary.kinds[id] = TokenKind::kByte;
  }
  if (!marks_beginning(files)) vocabulary.space_prefix = false;
  if (!keeps_merges) {
    std::map<std::string, double, std::less<>> ranks;
    double rank = 0;
    for (const std::string& merge : vocabulary.merges) {
      std::string whole = merge;
      if (const size_t space = whole.find(' '); space != std::string::npos) whole.erase(space, 1);
      ranks.emplace(std::move(whole), -rank);
      rank += 1;
    }
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (vocabulary.kinds[id] != TokenKind::kNormal) continue;
      const auto found = ranks.find(vocabulary.tokens[id]);
      vocabulary.scores[id] = found == ranks.end() ? -rank : found->second;
    }
    vocabulary.merges.clear();
  }
  // Tokens that the chat parsers of readers must see in the text.
  constexpr std::string_view kVisible[] = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                           "<|tool_response>", "<tool_response|>", "<|\"|>"};
  for (const AddedToken& added : added_tokens(files)) {
    const bool visible = keeps_merges && std::ranges::find(kVisible, added.text) != std::end(kVisible);
    const TokenKind kind = visible ? TokenKind::kUserDefined : added.kind();
    vocabulary.set(added.id, kind == TokenKind::kControl ? added.text : with_spaces(added.text), kind, kAddedScore);
  }
  return vocabulary;
}

// A piece that begins a word gets the mark, and one that continues it loses its "##".
Result<NewVocabulary> read_wordpiece(const TokenizerFiles& files, const nlohmann::json& model, int64_t size) {
  NewVocabulary vocabulary = unused_tokens("bert", size);
  vocabulary.pre = "jina-v2-en";  // as files have it for all of these; no reader needs it
  CAIRN_TRY_VOID(set_mapped_tokens(model, vocabulary));
  for (const AddedToken& added : added_tokens(files)) vocabulary.set(added.id, added.text, added.kind(), 0);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    std::string& text = vocabulary.tokens[id];
    if (vocabulary.kinds[id] == TokenKind::kControl) continue;
    text = text.starts_with("##") ? text.substr(2) : std::string(kSpaceMark) + text;
  }
  return vocabulary;
}

std::vector<uint8_t> base64_bytes(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const size_t value = kAlphabet.find(letter);
    if (value == std::string_view::npos) continue;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

Result<NewVocabulary> read_unigram(const TokenizerFiles& files, const nlohmann::json& model, int64_t size) {
  NewVocabulary vocabulary = unused_tokens("t5", size);
  vocabulary.pre = "default";
  vocabulary.scores.assign(static_cast<size_t>(size), -10'000.0);
  const nlohmann::json* list = find_member(model, "vocab");
  if (list == nullptr || !list->is_array()) {
    return fail(Code::kCorruptFile, "tokenizer.json: the model has no \"vocab\" of texts and scores");
  }
  const nlohmann::json* unknown = find_member(model, "unk_id");
  int64_t id = 0;
  for (const auto& piece : *list) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      return fail(Code::kCorruptFile, "tokenizer.json: token {} is no pair of a text and a score", id);
    }
    const bool is_unknown = unknown != nullptr && *unknown == id;
    vocabulary.set(id++, piece[0].get<std::string>(), is_unknown ? TokenKind::kUnknown : TokenKind::kNormal,
                   piece[1].get<double>());
  }
  for (const AddedToken& added : added_tokens(files)) {
    if (unknown != nullptr && *unknown == added.id) continue;
    const bool listed = added.id < id;
    vocabulary.set(added.id, added.text, added.kind(),
                   listed && added.id < size ? vocabulary.scores[static_cast<size_t>(added.id)] : 0.0);
  }
  vocabulary.space_prefix = true;
  vocabulary.remove_extra_spaces = false;
  each_step(find_member(files.tokenizer, "pre_tokenizer"), "pretokenizers", [&](const nlohmann::json& step) {
    const std::string type = text_of(step, "type");
    if (type == "WhitespaceSplit") vocabulary.remove_extra_spaces = true;
    if (type == "Metaspace" && (text_of(step, "prepend_scheme") == "never")) vocabulary.space_prefix = false;
  });
  each_step(find_member(files.tokenizer, "normalizer"), "normalizers", [&](const nlohmann::json& step) {
    if (text_of(step, "type") == "Precompiled")
      vocabulary.charsmap = base64_bytes(text_of(step, "precompiled_charsmap"));
    const nlohmann::json* pattern = find_member(step, "pattern");  // runs of spaces that become one
    if (text_of(step, "type") == "Replace" && pattern != nullptr && text_of(*pattern, "Regex").contains("{2,}"))
      vocabulary.remove_extra_spaces = true;
  });
  return vocabulary;
}

// SentencePiece's own file, and the tokens that the JSON files add to it or change.
Result<NewVocabulary> read_model_file(const TokenizerFiles& files, const std::filesystem::path& path, int64_t size) {
  CAIRN_TRY(const MappedFile file, MappedFile::open(path));
  CAIRN_TRY(NewVocabulary vocabulary, read_sentencepiece(file.bytes(), size));
  for (const auto& [text, id] : files.added_tokens.items()) {
    if (id.is_number_unsigned()) vocabulary.set(id.get<int64_t>(), text, TokenKind::kUserDefined, kAddedScore);
  }
  for (const AddedToken& added : added_tokens(files)) {
    const TokenKind kind = added.kind();
    vocabulary.set(added.id, kind == TokenKind::kControl ? added.text : with_spaces(added.text), kind, kAddedScore);
  }
  return vocabulary;
}

}  // namespace

void NewVocabulary::set(int64_t id, std::string text, TokenKind kind, double score) {
  if (id < 0 || id >= static_cast<int64_t>(tokens.size())) return;
  const auto at = static_cast<size_t>(id);
  tokens[at] = std::move(text);
  kinds[at] = kind;
  if (!scores.empty()) scores[at] = score;
}

Result<TokenizerFiles> TokenizerFiles::read(const std::filesystem::path& folder) {
  TokenizerFiles files{folder, {}, {}, {}, {}};
  CAIRN_TRY(files.tokenizer, read_json_file_if_there(folder / "tokenizer.json", kTokenizerFileBytesMax));
  CAIRN_TRY(files.tokenizer_config, read_json_file_if_there(folder / "tokenizer_config.json", kJsonFileBytesMax));
  CAIRN_TRY(files.added_tokens, read_json_file_if_there(folder / "added_tokens.json", kJsonFileBytesMax));
  CAIRN_TRY(files.generation, read_json_file_if_there(folder / "generation_config.json", kJsonFileBytesMax));
  return files;
}

Result<NewVocabulary> read_vocabulary(const TokenizerFiles& files, const Family& family, int64_t size,
                                      std::string_view pre_tokenizer) {
  constexpr int64_t kTokensMax = 1 << 24;
  if (size < 1 || size > kTokensMax) {
    return fail(Code::kTooLarge, "the table of tokens has {} rows, and can have 1 to {}", size, kTokensMax);
  }
  std::error_code missing;
  const auto model_file = files.folder / "tokenizer.model";
  const nlohmann::json* model = find_member(files.tokenizer, "model");
  const std::string type = model == nullptr ? "" : text_of(*model, "type");
  const bool marked = model != nullptr && (type == "BPE" || type.empty()) && is_true(*model, "byte_fallback");
  if (std::filesystem::exists(model_file, missing) && (model == nullptr || marked) && family.architecture != "gemma4") {
    return read_model_file(files, model_file, size);
  }
  if (model == nullptr) {
    return fail(Code::kNotFound, "{}: there is neither tokenizer.json nor tokenizer.model", files.folder.string());
  }
  if (marked) return read_marked_merges(files, *model, family, size);
  if (type == "BPE" || (type.empty() && find_member(*model, "merges") != nullptr))
    return read_byte_level(files, *model, family, size, pre_tokenizer);
  if (type == "WordPiece") return read_wordpiece(files, *model, size);
  if (type == "Unigram") return read_unigram(files, *model, size);
  return fail(Code::kUnsupported, "tokenizer.json: the model is of the kind {}; known are BPE, WordPiece and Unigram",
              printable(type));
}

}  // namespace cairn::convert
