#include "tokenizer/models/bpe.h"

#include <bit>
#include <utility>

#include "base/log.h"
#include "tokenizer/models/byte_level.h"
#include "tokenizer/text/lenient_utf8.h"
#include "tokenizer/text/normal_form.h"

namespace cairn::tokenizer {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr uint32_t kUnknownSymbol = UINT32_MAX;

}  // namespace

void MergeTable::reserve(size_t merges) {
  std::vector<Slot> old(std::bit_ceil(2 * merges + 2));
  if (old.size() <= slots_.size()) return;
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.merge.priority != kNoMerge) slots_[slot_of(slot.left, slot.right)] = slot;
  }
}

size_t MergeTable::slot_of(uint32_t left, uint32_t right) const {
  const uint64_t key = uint64_t{left} << 32 | right;
  const size_t mask = slots_.size() - 1;
  size_t i = (key * 0x9E3779B97F4A7C15u) >> 32 & mask;  // Fibonacci hashing: 2^64 divided by the golden ratio
  while (slots_[i].merge.priority != kNoMerge && (slots_[i].left != left || slots_[i].right != right)) {
    i = (i + 1) & mask;
  }
  return i;
}

void MergeTable::add(uint32_t left, uint32_t right, Merge merge) {
  if (2 * (used_ + 1) > slots_.size()) reserve(slots_.size());
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.merge.priority != kNoMerge) return;
  slot = {left, right, merge};
  ++used_;
}

Merge MergeTable::find(uint32_t left, uint32_t right) const { return slots_[slot_of(left, right)].merge; }

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, SpecialTokens special, PreTokenizer words, Config config)
    : VocabularyTokenizer(std::move(vocabulary), special, {.drops_first_space = false, .tidies_spaces = false}),
      words_(std::move(words)),
      config_(config) {}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::make(Vocabulary vocabulary, SpecialTokens special, PreTokenizer words,
                                                      std::span<const std::string_view> merges, Config config) {
  vocabulary.set_pieces(config.alphabet == Alphabet::kBytes ? PieceStyle::kByteLevel : PieceStyle::kEscapedSpace);
  std::unique_ptr<BpeTokenizer> made(
      new BpeTokenizer(std::move(vocabulary), special, std::move(words), config));  // the constructor is private
  CAIRN_TRY_VOID(made->add_merges(merges));
  made->find_byte_symbols();
  return made;
}

uint32_t BpeTokenizer::find_symbol(std::string_view text) const {
  if (const TokenId token = vocabulary().find(text); token != kNoToken) return static_cast<uint32_t>(index(token));
  const uint32_t other = other_symbols_.find(text);
  return other == StringPool::kNone ? kUnknownSymbol : static_cast<uint32_t>(size()) + other;
}

uint32_t BpeTokenizer::intern_symbol(std::string_view text) {
  const uint32_t found = find_symbol(text);
  return found != kUnknownSymbol ? found : static_cast<uint32_t>(size()) + other_symbols_.intern(text);
}

Result<void> BpeTokenizer::add_merges(std::span<const std::string_view> merges) {
  if (merges.size() >= kNoMerge) {
    return fail_at(std::string(kMergesKey), Code::kTooLarge, "there are {} merges", merges.size());
  }
  merges_.reserve(merges.size());
  std::string merged;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const size_t space = merges[rank].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merges[rank].size()) {
      return fail_at(std::string(kMergesKey), Code::kCorruptFile, "merge {} is not two texts with a space between",
                     rank);
    }
    const std::string_view left = merges[rank].substr(0, space);
    const std::string_view right = merges[rank].substr(space + 1);
    merged.assign(left).append(right);
    const uint32_t left_symbol = intern_symbol(left);
    const uint32_t right_symbol = intern_symbol(right);
    merges_.add(left_symbol, right_symbol, {static_cast<uint32_t>(rank), intern_symbol(merged)});
  }
  return {};
}

void BpeTokenizer::find_byte_symbols() {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char as_text = static_cast<char>(byte);
    const std::string fallback = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
    const bool bytes = config_.alphabet == Alphabet::kBytes;
    const std::string_view letter = byte_level_char(static_cast<unsigned char>(byte));
    byte_symbol_[byte] = find_symbol(bytes ? letter : std::string_view(&as_text, 1));
    byte_token_[byte] = vocabulary().find(bytes ? letter : std::string_view(fallback));
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (in_utf8 && byte_token_[byte] == kNoToken) ++missing;
  }
  loses_bytes_ = missing > 0;
  if (missing > 0)  // nobody can do anything about it
    log_info("the vocabulary has no token for {} of the 256 bytes: texts lose those", missing);
}

size_t BpeTokenizer::text_bytes_per_token() const {
  if (loses_bytes_) return 0;
  return piece_bytes_max() * (config_.nfc || config_.alphabet == Alphabet::kCharacters ? kRewrittenBytes : 1);
}

Result<void> BpeTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  std::string scratch;
  CAIRN_TRY(text, lenient_normalise(text, scratch));
  std::string composed;
  if (config_.nfc) text = nfc(text, composed);
  std::string escaped;
  if (config_.alphabet == Alphabet::kCharacters) {
    append_escaped_spaces(escaped, text);
    text = escaped;
  }
  std::vector<uint32_t> ends;
  CAIRN_TRY_VOID(words_.split(text, ends));
  MergeScratch merging;
  std::string whole;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    const std::string_view word = text.substr(begin, end - begin);
    if (const TokenId token = whole_word(word, whole); token != kNoToken) {
      out.push_back(token);
    } else {
      encode_word(word, merging, out);
    }
    begin = end;
  }
  return {};
}

TokenId BpeTokenizer::whole_word(std::string_view word, std::string& scratch) const {
  if (word.size() > vocabulary().entry_bytes_max()) return kNoToken;
  if (config_.alphabet == Alphabet::kCharacters) {
    // Runs of line ends are tokens to which no merges lead.
    const bool lines = word.find_first_not_of('\n') == std::string_view::npos;
    return lines || config_.ignore_merges ? vocabulary().find_plain(word) : kNoToken;
  }
  if (!config_.ignore_merges) return kNoToken;
  scratch.clear();
  for (const char c : word) scratch.append(byte_level_char(static_cast<unsigned char>(c)));
  return vocabulary().find_plain(scratch);
}

void BpeTokenizer::encode_word(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const {
  scratch.symbols.clear();
  for (size_t i = 0; i < word.size();) {
    const auto byte = static_cast<unsigned char>(word[i]);
    size_t length = 1;
    uint32_t symbol = byte_symbol_[byte];
    if (config_.alphabet == Alphabet::kCharacters && byte >= 0x80) {
      length = std::min<size_t>(static_cast<size_t>(lenient_length(word[i])), word.size() - i);
      symbol = find_symbol(word.substr(i, length));
    }
    scratch.add(symbol, static_cast<uint32_t>(i), static_cast<uint32_t>(length));
    i += length;
  }
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  for (int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
    const Symbol& symbol = scratch.symbols[i];
    const TokenId token{static_cast<int32_t>(symbol.id)};
    // Merges that give a control token's text do not make it of plain text; a single byte has no alternative.
    if (symbol.id < static_cast<uint32_t>(size()) && (symbol.length == 1 || !vocabulary().only_parsed(token))) {
      out.push_back(token);
    } else {
      append_bytes(word.substr(symbol.begin, symbol.length), out);
    }
  }
}

void BpeTokenizer::append_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const TokenId token = byte_token_[static_cast<unsigned char>(c)];
    if (token != kNoToken) out.push_back(token);
  }
}

}  // namespace cairn::tokenizer
