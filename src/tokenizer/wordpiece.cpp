#include "tokenizer/wordpiece.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "tokenizer/lenient_utf8.h"
#include "tokenizer/white_space.h"

namespace cairn {
namespace {

constexpr std::string_view kWordBegin = "\xE2\x96\x81";  // U+2581

// The ideographs that BERT's tokenizer makes words of their own (its published list of blocks).
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// The letter under the accents: the first character of the canonical decomposition.
char32_t base_letter(char32_t c) {
  utf8proc_int32_t parts[16];
  int boundary = UTF8PROC_BOUNDCLASS_START;
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 16, UTF8PROC_DECOMPOSE, &boundary);
  return count >= 1 ? static_cast<char32_t>(parts[0]) : c;
}

enum class Role { kLetter, kWordAlone, kSpace, kDropped };

Role role_of(char32_t c, bool drop_accents) {
  if (is_white_space(c)) return Role::kSpace;
  if (c == 0 || c == 0xFFFD) return Role::kDropped;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return Role::kDropped;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return drop_accents ? Role::kDropped : Role::kLetter;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return Role::kWordAlone;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return c < 0x7F || is_ideograph(c) ? Role::kWordAlone : Role::kLetter;
    default:
      return is_ideograph(c) ? Role::kWordAlone : Role::kLetter;
  }
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary, SpecialTokens special, Config config)
    : VocabularyTokenizer(std::move(vocabulary), special, {.drops_first_space = false, .tidies_spaces = true}),
      config_(config) {
  std::vector<Trie::Item> items;
  for (int32_t i = 0; i < size(); ++i) items.push_back({this->vocabulary().entry(TokenId{i}), i});
  tokens_ = Trie(std::move(items));
}

Result<std::unique_ptr<Tokenizer>> WordPieceTokenizer::make(Vocabulary vocabulary, SpecialTokens special,
                                                            Config config) {
  if (special.unknown == kNoToken) {
    return fail_at("tokenizer.ggml.unknown_token_id", Code::kCorruptFile,
                   "a WordPiece vocabulary needs an unknown token");
  }
  vocabulary.set_pieces(PieceStyle::kEscapedSpace);
  return std::unique_ptr<Tokenizer>(new WordPieceTokenizer(std::move(vocabulary), special, config));
}

Result<void> WordPieceTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  std::string scratch;
  CAIRN_TRY(text, lenient_normalise(text, scratch));
  std::string word;
  const auto finish_word = [&] {
    if (!word.empty()) encode_word(word, out);
    word.clear();
  };
  for (size_t offset = 0; offset < text.size();) {
    const LenientChar c = lenient_decode(text, offset);
    offset += static_cast<size_t>(c.length);
    const char32_t letter = config_.strip_accents ? base_letter(c.value) : c.value;
    const Role role = role_of(letter, config_.strip_accents);
    if (role == Role::kDropped) continue;
    if (role != Role::kLetter) finish_word();
    if (role == Role::kSpace) continue;
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(letter)));
    lenient_append(word, config_.lowercase ? lower : letter);
    if (role == Role::kWordAlone) finish_word();
  }
  finish_word();
  return {};
}

// A word that cannot be cut to its end is one unknown token.
void WordPieceTokenizer::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const std::string whole = std::string(kWordBegin).append(word);
  const size_t first = out.size();
  for (size_t begin = 0; begin < whole.size();) {
    size_t end = begin;
    TokenId token = kNoToken;
    Trie::Node node = Trie::kRoot;
    for (size_t i = begin; i < whole.size(); ++i) {
      node = tokens_.child(node, static_cast<unsigned char>(whole[i]));
      if (node == Trie::kNoNode) break;
      if (tokens_.value(node) < 0) continue;
      token = TokenId{tokens_.value(node)};
      end = i + 1;
    }
    if (token == kNoToken) {
      out.resize(first);
      break;
    }
    out.push_back(token);
    begin = end;
  }
  if (out.size() == first) out.push_back(special().unknown);
}

}  // namespace cairn
