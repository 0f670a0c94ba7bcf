#include "synth/vocabulary.h"

#include <cstddef>
#include <span>

#include "tokenizer/models/byte_level.h"
#include "tokenizer/vocabulary.h"

namespace cairn::synth {
namespace {

using gguf::Array;
using gguf::Value;
using gguf::ValueType;

struct Special {
  std::string_view text;
  tokenizer::TokenType type;
};

constexpr Special kChatMlSpecials[] = {
    {"<|endoftext|>", tokenizer::TokenType::kControl},
    {"<|im_start|>", tokenizer::TokenType::kControl},
    {"<|im_end|>", tokenizer::TokenType::kControl},
};
constexpr std::string_view kChatMl = R"({%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";

// Special tokens that are shown as text, since the reader's program parses them: thinking and calls.
constexpr Special kDeepseekSpecials[] = {
    {"<｜begin▁of▁sentence｜>", tokenizer::TokenType::kControl},
    {"<｜end▁of▁sentence｜>", tokenizer::TokenType::kControl},
    {"<｜User｜>", tokenizer::TokenType::kControl},
    {"<｜Assistant｜>", tokenizer::TokenType::kControl},
    {"<think>", tokenizer::TokenType::kUserDefined},
    {"</think>", tokenizer::TokenType::kUserDefined},
    {"｜DSML｜", tokenizer::TokenType::kUserDefined},
};
constexpr std::string_view kDeepseek2Template = R"({{- bos_token -}}
{%- for message in messages -%}
{%- if message.role == 'assistant' %}{{ '<｜Assistant｜>' + message.content + eos_token }}
{%- elif message.role == 'user' %}{{ '<｜User｜>' + message.content }}
{%- else %}{{ message.content }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif -%})";

// Makes entries from two earlier ones, as merges "left right", best first: a space and a letter, two letters, two pairs
// of letters.
class Fillers {
 public:
  Fillers(Vocabulary& vocabulary, size_t wanted) : vocabulary_(vocabulary), wanted_(wanted) {
    std::vector<std::string> letters;
    for (char letter = 'a'; letter <= 'z'; ++letter) letters.emplace_back(1, letter);
    add_all({std::string(tokenizer::byte_level_char(' '))}, letters);
    std::vector<std::string> pairs;
    for (const auto& left : letters) {
      for (const auto& right : letters) pairs.push_back(left + right);
    }
    add_all(letters, letters);
    add_all(pairs, pairs);
  }

 private:
  void add_all(const std::vector<std::string>& lefts, const std::vector<std::string>& rights) {
    for (const auto& left : lefts) {
      for (const auto& right : rights) {
        if (vocabulary_.tokens.size() == wanted_) return;
        vocabulary_.tokens.push_back(left + right);
        vocabulary_.merges.push_back(left + " " + right);
      }
    }
  }

  Vocabulary& vocabulary_;
  size_t wanted_;
};

Value array_of(std::span<const std::string> texts) {
  Array array{.type = ValueType::kString, .size = texts.size(), .numbers = {}, .strings = {}, .arrays = {}};
  array.strings.assign(texts.begin(), texts.end());
  return {ValueType::kArray, std::move(array)};
}

}  // namespace

Result<Vocabulary> make_vocabulary(std::string_view architecture, int64_t size) {
  const bool is_deepseek = architecture.starts_with("deepseek");
  const std::span<const Special> specials = is_deepseek ? std::span<const Special>(kDeepseekSpecials) : kChatMlSpecials;
  constexpr int64_t kBytes = 256;
  const int64_t least = kBytes + static_cast<int64_t>(specials.size());
  if (size < least || size > kVocabularyMax) {
    return fail_at("key vocab_size", Code::kInvalidArgument, "{} must be in {} .. {}", size, least, kVocabularyMax);
  }
  Vocabulary made;
  for (int byte = 0; byte < kBytes; ++byte) {
    made.tokens.emplace_back(tokenizer::byte_level_char(static_cast<unsigned char>(byte)));
  }
  Fillers(made, static_cast<size_t>(size) - specials.size());
  made.types.assign(made.tokens.size(), static_cast<int32_t>(tokenizer::TokenType::kNormal));
  made.bos = static_cast<int64_t>(made.tokens.size());
  made.eos = made.bos + (is_deepseek ? 1 : 2);
  for (const Special& special : specials) {
    made.tokens.emplace_back(special.text);
    made.types.push_back(static_cast<int32_t>(special.type));
  }
  made.pre = is_deepseek ? (architecture.starts_with("deepseek4") ? "joyai-llm" : "deepseek-v3") : "qwen2";
  if (architecture != "deepseek4") made.chat_template = is_deepseek ? kDeepseek2Template : kChatMl;
  return made;
}

void write_vocabulary(const Vocabulary& vocabulary, gguf::Writer& writer) {
  writer.set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", vocabulary.pre);
  writer.set("tokenizer.ggml.tokens", array_of(vocabulary.tokens));
  const auto types = std::as_bytes(std::span(vocabulary.types));
  writer.set("tokenizer.ggml.token_type", Value{ValueType::kArray, Array{.type = ValueType::kI32,
                                                                         .size = vocabulary.types.size(),
                                                                         .numbers = types,
                                                                         .strings = {},
                                                                         .arrays = {}}});
  writer.set("tokenizer.ggml.merges", array_of(vocabulary.merges));
  writer.set_integer("tokenizer.ggml.bos_token_id", ValueType::kU32, vocabulary.bos);
  writer.set_integer("tokenizer.ggml.eos_token_id", ValueType::kU32, vocabulary.eos);
  writer.set_boolean("tokenizer.ggml.add_bos_token", false);
  if (!vocabulary.chat_template.empty()) writer.set("tokenizer.chat_template", vocabulary.chat_template);
}

}  // namespace cairn::synth
