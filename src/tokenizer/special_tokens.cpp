// The texts of special tokens in published vocabularies (model cards and tokenizer files of the models named beside
// them); see NOTICE.
#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/log.h"

namespace cairn::tokenizer {
namespace {

using Texts = std::initializer_list<std::string_view>;

// Texts that end a turn, the most specific first: a vocabulary may have several of them.
const Texts kEndOfTurn = {
    "<|eot_id|>",             // Llama 3
    "<|im_end|>",             // ChatML
    "<end_of_turn>",          // Gemma 2 and 3
    "<turn|>",                // Gemma 4
    "<|END_OF_TURN_TOKEN|>",  // Command R
    "<|end|>",                // Phi 3
    "<end_of_utterance>",     // SmolDocling
    "[EOT]",                  // Kimi K2
    "<EOT>",
    "_<EOT>",
    "<|end_of_text|>",  // Granite
    "<|endoftext|>",
    "<｜end▁of▁sentence｜>",  // DeepSeek
};

// Further texts after which generation ends.
const Texts kEndOfGeneration = {
    "<|return|>",        // GPT-OSS
    "<|call|>",          // GPT-OSS
    "<|flush|>",         // Solar Open
    "<|calls|>",         // Solar Open
    "<|eom_id|>",        // Llama 3: waits for a tool
    "</s>",              // SentencePiece
    "[EOS]",             // Kimi K2
    "<eos>",             // Gemma
    "<|tool_response>",  // Gemma 4: waits for a tool
    "[e~[",              // MiniMax M2
};

// Tokens of fill-in-the-middle prompts. A model that generates a padding, repository or file separator token has ended
// its text.
struct FillInMiddle {
  std::string_view key;
  std::string_view older_key;  // of files from before July 2024
  TokenId FillInMiddleTokens::* token;
  bool ends_generation;
  Texts texts;
};
const FillInMiddle kFillInMiddle[] = {
    {"tokenizer.ggml.fim_pre_token_id",
     "tokenizer.ggml.prefix_token_id",
     &FillInMiddleTokens::prefix,
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
      "<|prefix|>"}},
    {"tokenizer.ggml.fim_suf_token_id",
     "tokenizer.ggml.suffix_token_id",
     &FillInMiddleTokens::suffix,
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
      "<|suffix|>"}},
    {"tokenizer.ggml.fim_mid_token_id",
     "tokenizer.ggml.middle_token_id",
     &FillInMiddleTokens::middle,
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"}},
    {"tokenizer.ggml.fim_pad_token_id", "", nullptr, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     "",
     &FillInMiddleTokens::repository,
     true,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", "", &FillInMiddleTokens::file, true, {"<|file_sep|>"}},
};

// The id under `key`; `missing` if there is none or it is outside the vocabulary.
Result<TokenId> id_or(const gguf::Metadata& metadata, std::string_view key, TokenId missing,
                      const Vocabulary& vocabulary) {
  if (!vocabulary.contains(missing)) missing = kNoToken;
  if (!metadata.contains(key)) return missing;
  CAIRN_TRY(const int64_t id, metadata.integer(key));
  if (id == -1 || id == UINT32_MAX) return missing;  // values with which some files mean "none"
  if (id < 0 || id >= vocabulary.size()) {
    log_warning("{} is {}, which is no token of this vocabulary of {}; left out", key, id, vocabulary.size());
    return missing;
  }
  return TokenId(static_cast<int32_t>(id));
}

TokenId first_of(const Vocabulary& vocabulary, Texts texts) {
  for (const std::string_view text : texts) {
    if (const TokenId id = vocabulary.find(text); id != kNoToken) return id;
  }
  return kNoToken;
}

// Whether the token can be a control token although the file gives it the type normal. A vocabulary may have such a
// text as a word: "</s>" closes struck-out text in HTML.
bool may_control(const Vocabulary& vocabulary, TokenId id) {
  const std::string_view text = vocabulary.entry(id);
  if (!vocabulary.has_types() || text.starts_with("<|") || text.starts_with("<｜")) return true;
  const bool html = text == "</s>" && vocabulary.find("<eos>") != kNoToken;  // Gemma has tags as user-defined tokens
  return vocabulary.hidden(id) || (vocabulary.type(id) == TokenType::kUserDefined && !html);
}

void mark_end(Vocabulary& vocabulary, TokenId id) {
  if (id == kNoToken || !may_control(vocabulary, id)) return;
  vocabulary.set_type(id, TokenType::kControl);
  vocabulary.set_ends_generation(id, true);
}

Result<FillInMiddleTokens> mark_fill_in_middle(const gguf::Metadata& metadata, Vocabulary& vocabulary) {
  FillInMiddleTokens tokens;
  for (const FillInMiddle& part : kFillInMiddle) {
    CAIRN_TRY(TokenId id, id_or(metadata, part.key, kNoToken, vocabulary));
    if (id == kNoToken && !part.older_key.empty()) {
      CAIRN_TRY(id, id_or(metadata, part.older_key, kNoToken, vocabulary));
    }
    if (id == kNoToken) {
      id = first_of(vocabulary, part.texts);
      if (id == kNoToken || !may_control(vocabulary, id)) continue;
      vocabulary.set_type(id, TokenType::kControl);
    }
    if (part.ends_generation) vocabulary.set_ends_generation(id, true);
    if (part.token != nullptr) tokens.*part.token = id;
  }
  return tokens;
}

bool ends(const Vocabulary& vocabulary, std::string_view text) {
  const TokenId id = vocabulary.find(text);
  return id != kNoToken && vocabulary.ends_generation(id);
}

// Removes texts that end generation in one family of models and not in another.
void unmark_exceptions(Vocabulary& vocabulary) {
  // With "<|return|>" and "<|call|>" (or "<|flush|>"), "<|end|>" ends only one message of several.
  const bool calls = ends(vocabulary, "<|call|>") || ends(vocabulary, "<|calls|>");
  if (calls && (ends(vocabulary, "<|return|>") || ends(vocabulary, "<|flush|>")) && ends(vocabulary, "<|end|>")) {
    vocabulary.set_ends_generation(vocabulary.find("<|end|>"), false);
  }
  // Gemma 4 has "</s>" among its HTML tags.
  if (ends(vocabulary, "<|tool_response>") && ends(vocabulary, "</s>")) {
    vocabulary.set_ends_generation(vocabulary.find("</s>"), false);
    vocabulary.set_type(vocabulary.find("</s>"), TokenType::kNormal);
  }
}

// Marks tokens that strip white space: files do not say which do, but it is known for these models.
Result<void> mark_stripping(const gguf::Metadata& metadata, Vocabulary& vocabulary) {
  CAIRN_TRY(const std::string_view pre, metadata.string_or("tokenizer.ggml.pre", ""));
  CAIRN_TRY(const std::string_view model, metadata.string_or("tokenizer.ggml.model", ""));
  CAIRN_TRY(const std::string_view architecture, metadata.string_or("general.architecture", ""));
  CAIRN_TRY(const std::string_view model_name, metadata.string_or("general.name", ""));
  std::string name(model_name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto named = [&](Texts parts) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
  };
  if (pre.starts_with("jina-v2-") || pre == "roberta-bpe" || architecture == "nomic-bert-moe" ||
      architecture == "jina-bert-v3") {
    if (const TokenId mask = vocabulary.find("<mask>"); mask != kNoToken) vocabulary.set_strips_left(mask, true);
  } else if (named({"phi-3", "phi3"}) || (architecture == "phi3" && model == "llama")) {
    for (int32_t i = 0; i < vocabulary.size(); ++i) {
      const TokenId id{i};
      const std::string_view text = vocabulary.entry(id);
      const bool special = vocabulary.hidden(id) || vocabulary.type(id) == TokenType::kUserDefined;
      const bool plain = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
      if (special && !plain) vocabulary.set_strips_right(id, true);
    }
  } else if (pre == "modern-bert" || named({"modern-bert"})) {
    if (const TokenId mask = vocabulary.find("[MASK]"); mask != kNoToken) vocabulary.set_strips_left(mask, true);
  }
  return {};
}

// Marks control tokens of Gemma 4 that the converter makes user-defined so that parsers of answers see them. A user's
// text must not become one all the same.
Result<void> mark_shown_control(const gguf::Metadata& metadata, Vocabulary& vocabulary) {
  CAIRN_TRY(const std::string_view model, metadata.string_or("tokenizer.ggml.model", ""));
  if (model != "gemma4") return {};
  for (const std::string_view text :
       {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"}) {
    const TokenId id = vocabulary.find(text);
    if (id != kNoToken && vocabulary.type(id) == TokenType::kUserDefined) vocabulary.set_shown_control(id, true);
  }
  return {};
}

// Whether to add a token: as the file says, which must then have the token; else the default, if there is a token.
Result<bool> add_or(const gguf::Metadata& metadata, std::string_view key, bool missing, TokenId id) {
  if (!metadata.contains(key)) return missing && id != kNoToken;
  CAIRN_TRY(const bool add, metadata.boolean(key));
  if (add && id == kNoToken) {
    return fail_at(std::string(key), Code::kCorruptFile, "the token is to be added to every text, but there is none");
  }
  return add;
}

}  // namespace

Result<SpecialTokens> load_special_tokens(const gguf::Metadata& metadata, const SpecialDefaults& defaults,
                                          Vocabulary& vocabulary) {
  SpecialTokens out;
  const auto id = [&](std::string_view key, TokenId missing) { return id_or(metadata, key, missing, vocabulary); };
  CAIRN_TRY(const TokenId cls, id("tokenizer.ggml.cls_token_id", defaults.bos));
  CAIRN_TRY(out.bos, id("tokenizer.ggml.bos_token_id", cls));
  CAIRN_TRY(out.eos, id("tokenizer.ggml.eos_token_id", defaults.eos));
  CAIRN_TRY(out.eot, id("tokenizer.ggml.eot_token_id", kNoToken));
  CAIRN_TRY(const TokenId eom, id("tokenizer.ggml.eom_token_id", kNoToken));
  CAIRN_TRY(out.unknown, id("tokenizer.ggml.unknown_token_id", defaults.unknown));
  CAIRN_TRY(out.separator, id("tokenizer.ggml.seperator_token_id", defaults.separator));
  CAIRN_TRY(out.padding, id("tokenizer.ggml.padding_token_id", defaults.padding));
  CAIRN_TRY(out.mask, id("tokenizer.ggml.mask_token_id", defaults.mask));
  if (defaults.separator_closes && out.separator != kNoToken) out.eos = out.separator;
  if (out.separator == kNoToken) out.separator = out.eos;
  CAIRN_TRY(out.add_bos, add_or(metadata, "tokenizer.ggml.add_bos_token", defaults.add_bos, out.bos));
  CAIRN_TRY(out.add_eos, add_or(metadata, "tokenizer.ggml.add_eos_token", defaults.add_eos, out.eos));
  CAIRN_TRY(out.add_separator, add_or(metadata, "tokenizer.ggml.add_sep_token", defaults.add_separator, out.separator));
  if (defaults.separator_closes && out.eos != kNoToken) {
    // Converters use add_sep for a second separator after the one that ends the first text; older files, without
    // add_eos, mean that first one.
    out.add_separator = out.add_separator && out.add_eos;
    out.add_eos = true;
  }

  CAIRN_TRY(out.fim, mark_fill_in_middle(metadata, vocabulary));
  for (const std::string_view text : kEndOfTurn) mark_end(vocabulary, vocabulary.find(text));
  for (const std::string_view text : kEndOfGeneration) mark_end(vocabulary, vocabulary.find(text));
  if (out.eot == kNoToken) {
    out.eot = first_of(vocabulary, kEndOfTurn);
    if (out.eot != kNoToken && !may_control(vocabulary, out.eot)) out.eot = kNoToken;
  }
  for (const TokenId end : {out.eos, out.eot, eom}) {
    if (end != kNoToken) vocabulary.set_ends_generation(end, true);
  }
  unmark_exceptions(vocabulary);
  CAIRN_TRY_VOID(mark_stripping(metadata, vocabulary));
  CAIRN_TRY_VOID(mark_shown_control(metadata, vocabulary));
  return out;
}

}  // namespace cairn::tokenizer
