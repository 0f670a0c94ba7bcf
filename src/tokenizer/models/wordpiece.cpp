#include "tokenizer/models/wordpiece.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "tokenizer/text/lenient_utf8.h"
#include "tokenizer/text/white_space.h"

namespace cairn::tokenizer {
namespace {

constexpr std::string_view kWordBegin = "\xE2\x96\x81";  // U+2581

// Whether BERT's tokenizer treats the ideograph as a word of its own (its published list of blocks).
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// Maximum characters of a word; a longer one is unknown as a whole. BERT's own limit, for which files have no key.
constexpr int kWordCharactersMax = 100;

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kDotAbove = 0x307;

bool is_accent(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN; }

// Whether BERT's cleaning drops the character: control characters except ASCII's white space.
bool is_dropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0 || c == 0xFFFD) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
         category == UTF8PROC_CATEGORY_CO;
}

// Whether the character is a word of its own: Unicode's punctuation, and every ASCII symbol.
bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && std::isalnum(static_cast<unsigned char>(c)) == 0;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

// The letters of a character as words are made of them: decomposed, without accents, in lower case.
class Letters {
 public:
  Letters(char32_t c, const WordPieceTokenizer::Config& config) : size_(1) {
    parts_[0] = static_cast<utf8proc_int32_t>(c);
    if (config.strip_accents) {
      int boundary = UTF8PROC_BOUNDCLASS_START;
      const auto count = utf8proc_decompose_char(parts_[0], parts_.data(), static_cast<utf8proc_ssize_t>(parts_.size()),
                                                 UTF8PROC_DECOMPOSE, &boundary);
      if (count >= 1 && count <= std::ssize(parts_)) size_ = static_cast<size_t>(count);
      const auto end = std::remove_if(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(size_),
                                      [](utf8proc_int32_t part) { return is_accent(static_cast<char32_t>(part)); });
      size_ = static_cast<size_t>(end - parts_.begin());
    }
    if (!config.lowercase) return;
    if (size_ == 1 && parts_[0] == kCapitalIWithDot) {  // the only letter whose lower case is two characters
      parts_[1] = kDotAbove;
      size_ = 2;
    }
    for (size_t i = 0; i < size_; ++i) parts_[i] = utf8proc_tolower(parts_[i]);
  }

  size_t size() const { return size_; }
  char32_t operator[](size_t i) const { return static_cast<char32_t>(parts_[i]); }

 private:
  std::array<utf8proc_int32_t, 8> parts_{};  // no decomposition is longer than 4
  size_t size_;
};

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary, SpecialTokens special, Config config)
    : VocabularyTokenizer(std::move(vocabulary), special, {.drops_first_space = false, .tidies_spaces = true}),
      config_(config) {
  std::vector<Trie::Item> items;
  for (int32_t i = 0; i < size(); ++i)
    if (!this->vocabulary().only_parsed(TokenId{i})) items.push_back({this->vocabulary().entry(TokenId{i}), i});
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

// The order is that of BERT's tokenizer: cleaning, ideographs, accents, case, punctuation.
Result<void> WordPieceTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  std::string scratch;
  CAIRN_TRY(text, lenient_normalise(text, scratch));
  std::string word;
  int characters = 0;
  const auto finish_word = [&] {
    if (characters > kWordCharactersMax) {
      out.push_back(special().unknown);
    } else if (characters > 0) {
      encode_word(word, out);
    }
    word.clear();
    characters = 0;
  };
  for (size_t offset = 0; offset < text.size();) {
    const LenientChar c = lenient_decode(text, offset);
    offset += static_cast<size_t>(c.length);
    if (is_dropped(c.value)) continue;
    const bool ideograph = is_ideograph(c.value);
    if (ideograph) finish_word();
    const Letters letters(c.value, config_);
    for (size_t i = 0; i < letters.size(); ++i) {
      const bool alone = is_punctuation(letters[i]);
      if (alone || is_white_space(letters[i])) finish_word();
      if (is_white_space(letters[i])) continue;
      lenient_append(word, letters[i]);
      ++characters;
      if (alone) finish_word();
    }
    if (ideograph) finish_word();
  }
  finish_word();
  return {};
}

// A word that cannot be segmented to its end becomes one unknown token. So does one that contains "▁", which would look
// like the beginning of another word.
void WordPieceTokenizer::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const std::string whole = std::string(kWordBegin).append(word);
  if (word.find(kWordBegin) != std::string_view::npos) {
    out.push_back(special().unknown);
    return;
  }
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

}  // namespace cairn::tokenizer
