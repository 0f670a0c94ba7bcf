#include "tokenizer/tokenizer.h"

#include <utility>

#include "base/log.h"
#include "base/text/printable.h"
#include "tokenizer/models/bpe.h"
#include "tokenizer/models/charsmap.h"
#include "tokenizer/models/spm.h"
#include "tokenizer/models/unigram.h"
#include "tokenizer/models/wordpiece.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace cairn::tokenizer {
namespace {

using Loaded = Result<std::unique_ptr<Tokenizer>>;

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";

Loaded load_bpe(const gguf::Metadata& metadata, Vocabulary vocabulary, BpeTokenizer::Alphabet alphabet) {
  CAIRN_TRY(std::string_view pre, metadata.string_or(kPreKey, ""));
  if (alphabet == BpeTokenizer::Alphabet::kCharacters) {
    pre = "gemma4";
  } else if (pre.empty()) {
    log_warning("the file does not say how to cut text into words ({}); taking \"default\"", kPreKey);
    pre = "default";
  }
  const PreTokenizerSpec* spec = find_pre_tokenizer(pre);
  if (spec == nullptr) {
    return fail_at(std::string(kPreKey), Code::kUnsupported, "the pre-tokenizer \"{}\" is not supported; these are: {}",
                   printable(pre), pre_tokenizer_names());
  }
  CAIRN_TRY(PreTokenizer words, PreTokenizer::compile(spec->rules));
  CAIRN_TRY(const auto merges, metadata.strings("tokenizer.ggml.merges"));
  const SpecialDefaults defaults = {.add_bos = spec->add_bos, .add_separator = spec->add_separator};
  CAIRN_TRY(SpecialTokens special, load_special_tokens(metadata, defaults, vocabulary));
  if (alphabet == BpeTokenizer::Alphabet::kCharacters && special.bos != kNoToken) {
    special.add_bos = true;  // some published Gemma 4 files say false, and the models need it
  }
  return BpeTokenizer::make(std::move(vocabulary), special, std::move(words), merges,
                            {alphabet, spec->ignore_merges, spec->nfc});
}

Loaded load_gpt2(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  return load_bpe(metadata, std::move(vocabulary), BpeTokenizer::Alphabet::kBytes);
}

Loaded load_gemma4(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  return load_bpe(metadata, std::move(vocabulary), BpeTokenizer::Alphabet::kCharacters);
}

Loaded load_spm(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  const SpecialDefaults defaults = {.bos = TokenId{1}, .eos = TokenId{2}, .unknown = TokenId{0}, .add_bos = true};
  CAIRN_TRY(const SpecialTokens special, load_special_tokens(metadata, defaults, vocabulary));
  CAIRN_TRY(const bool prefix, metadata.boolean_or("tokenizer.ggml.add_space_prefix", true));
  return SpmTokenizer::make(std::move(vocabulary), special, prefix);
}

Loaded load_unigram(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  const SpecialDefaults defaults = {
      .eos = TokenId{1}, .unknown = TokenId{2}, .padding = TokenId{0}, .add_eos = true, .add_separator = true};
  CAIRN_TRY(const SpecialTokens special, load_special_tokens(metadata, defaults, vocabulary));
  UnigramTokenizer::Config config;
  CAIRN_TRY(config.add_space_prefix, metadata.boolean_or("tokenizer.ggml.add_space_prefix", false));
  CAIRN_TRY(config.remove_extra_whitespaces, metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
  Charsmap charsmap;
  constexpr std::string_view kCharsmapKey = "tokenizer.ggml.precompiled_charsmap";
  if (const gguf::Value* value = metadata.find(kCharsmapKey)) {
    const auto* array = std::get_if<gguf::Array>(&value->data);
    if (array == nullptr || (array->type != gguf::ValueType::kU8 && array->type != gguf::ValueType::kI8)) {
      return fail_at(std::string(kCharsmapKey), Code::kCorruptFile, "expected an array of bytes");
    }
    CAIRN_TRY(charsmap, Charsmap::parse(array->numbers));
  }
  return UnigramTokenizer::make(std::move(vocabulary), special, std::move(charsmap), config);
}

Loaded load_wordpiece(const gguf::Metadata& metadata, Vocabulary vocabulary) {
  const SpecialDefaults defaults = {.bos = TokenId{101},
                                    .unknown = TokenId{100},
                                    .separator = TokenId{102},
                                    .padding = TokenId{0},
                                    .mask = TokenId{103},
                                    .add_bos = true,
                                    .separator_closes = true};
  CAIRN_TRY(const SpecialTokens special, load_special_tokens(metadata, defaults, vocabulary));
  WordPieceTokenizer::Config config;
  CAIRN_TRY(config.lowercase, metadata.boolean_or("tokenizer.ggml.normalizer.lowercase", true));
  CAIRN_TRY(config.strip_accents, metadata.boolean_or("tokenizer.ggml.normalizer.strip_accents", config.lowercase));
  return WordPieceTokenizer::make(std::move(vocabulary), special, config);
}

struct Kind {
  std::string_view model;
  Loaded (*load)(const gguf::Metadata&, Vocabulary);
};
constexpr Kind kKinds[] = {
    {"gpt2", load_gpt2}, {"gemma4", load_gemma4}, {"llama", load_spm}, {"t5", load_unigram}, {"bert", load_wordpiece},
};

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode_first(std::string_view text) const {
  CAIRN_TRY(std::vector<TokenId> tokens, encode(text, {.add_special = true}));
  if (special().add_separator) tokens.push_back(special().separator);
  return tokens;
}

Result<std::vector<TokenId>> Tokenizer::encode_second(std::string_view text) const {
  CAIRN_TRY(std::vector<TokenId> tokens, encode(text, {.add_special = false}));
  if (special().add_eos) tokens.push_back(special().eos);
  return tokens;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const gguf::Metadata& metadata) {
  CAIRN_TRY(const std::string_view model, metadata.string(kModelKey));
  std::string known;
  for (const Kind& kind : kKinds) {
    if (kind.model == model) {
      CAIRN_TRY(Vocabulary vocabulary, Vocabulary::load(metadata));
      return kind.load(metadata, std::move(vocabulary));
    }
    known.append(known.empty() ? "" : ", ").append(kind.model);
  }
  return fail_at(std::string(kModelKey), Code::kUnsupported, "the tokenizer \"{}\" is not supported; these are: {}",
                 printable(model), known);
}

}  // namespace cairn::tokenizer
