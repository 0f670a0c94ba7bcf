#include "tokenizer/vocabulary_tokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/text/tidy_spaces.h"

namespace cairn::tokenizer {
namespace {

// The ranges of a text after append_unescaped() has rewritten it.
std::vector<ByteRange> unescaped_ranges(std::string_view text, std::span<const ByteRange> ranges) {
  std::vector<ByteRange> out;
  size_t dropped = 0;
  size_t next = text.find(kEscapedSpace);
  const auto moved = [&](size_t place, bool is_end) {
    for (; next != std::string_view::npos && next + kEscapedSpace.size() <= place;
         next = text.find(kEscapedSpace, next + kEscapedSpace.size()))
      dropped += kEscapedSpace.size() - 1;
    // A space belongs to every range that had a part of it.
    const bool within = next != std::string_view::npos && next < place;
    return within ? next - dropped + (is_end ? 1 : 0) : place - dropped;
  };
  for (const ByteRange& range : ranges) {
    const size_t begin = moved(range.begin, false);
    const size_t end = moved(range.end, true);
    if (!out.empty() && out.back().end >= begin) {
      out.back().end = std::max(out.back().end, end);
    } else {
      out.push_back({begin, end});
    }
  }
  return out;
}

}  // namespace

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary, SpecialTokens special, Decoding decoding)
    : vocabulary_(std::move(vocabulary)),
      special_(special),
      drops_first_space_(decoding.drops_first_space),
      tidies_spaces_(decoding.tidies_spaces),
      prefix_only_at_start_(decoding.prefix_only_at_start),
      underscore_is_space_(decoding.underscore_is_space),
      splitter_(vocabulary_) {
  for (int32_t i = 0; i < vocabulary_.size(); ++i) {
    const TokenId id{i};
    if (vocabulary_.strips_left(id) || vocabulary_.strips_right(id)) {
      piece_bytes_max_ = 0;
      return;
    }
    const std::string_view text = parts_texts(id) ? vocabulary_.entry(id) : vocabulary_.piece(id);
    piece_bytes_max_ = std::max(piece_bytes_max_, text.size());
  }
}

Result<std::vector<TokenId>> VocabularyTokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kTextBytesMax) {
    return fail(Code::kTooLarge, "a text of {} bytes is over the limit of {}", text.size(), kTextBytesMax);
  }
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 2);
  if (options.add_special && special_.add_bos) out.push_back(special_.bos);
  std::string spaced;
  std::vector<ByteRange> moved;  // foreign ranges of a text that is changed before it is split
  if (underscore_is_space_ && text.find(kEscapedSpace) != std::string_view::npos) {
    moved = unescaped_ranges(text, options.foreign);
    append_unescaped(spaced, text);
    options.foreign = moved;
    text = spaced;
  }
  const bool cut_behind_special = parts_texts(options.after);
  if (cut_behind_special) {
    const std::string_view rest = stripped_after(vocabulary_, options.after, text);
    if (rest.size() < text.size()) {
      moved = ranges_within(options.foreign, text.size() - rest.size(), text.size());
      options.foreign = moved;
    }
    text = rest;
  }
  bool after_special = options.after == kNoToken || (!prefix_only_at_start_ && (cut_behind_special || !out.empty()));
  for (const Fragment& fragment : splitter_.split(vocabulary_, text, options.parse_special, options.foreign)) {
    if (fragment.token != kNoToken) {
      after_special = !prefix_only_at_start_;
      out.push_back(fragment.token);
    } else {
      CAIRN_TRY_VOID(encode_text(fragment.text, after_special, out));
      after_special = false;
    }
  }
  if (options.add_special && special_.add_eos) out.push_back(special_.eos);
  return out;
}

bool VocabularyTokenizer::parts_texts(TokenId id) const {
  return vocabulary_.contains(id) && (vocabulary_.hidden(id) || vocabulary_.type(id) == TokenType::kUserDefined);
}

std::string_view VocabularyTokenizer::piece(TokenId id, bool render_special) const {
  if (!vocabulary_.contains(id) || (!render_special && vocabulary_.hidden(id))) return {};
  return vocabulary_.piece(id);
}

std::string VocabularyTokenizer::decode(std::span<const TokenId> ids, bool render_special) const {
  std::string out;
  bool at_start = drops_first_space_;
  for (const TokenId id : ids) {
    std::string_view text = piece(id, render_special);
    if (at_start && (!text.empty() || piece(id, true).empty())) {  // a hidden token does not count as the beginning
      at_start = false;
      if (text.starts_with(' ')) text.remove_prefix(1);
    }
    out.append(text);
  }
  return tidies_spaces_ ? tidy_spaces(out) : out;
}

bool VocabularyTokenizer::is_special(TokenId id) const {
  if (!vocabulary_.contains(id)) return false;
  const TokenType type = vocabulary_.type(id);
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

bool VocabularyTokenizer::is_control(TokenId id) const {
  return vocabulary_.contains(id) && (vocabulary_.type(id) == TokenType::kControl || vocabulary_.shown_control(id));
}

std::string_view VocabularyTokenizer::entry(TokenId id) const {
  return vocabulary_.contains(id) ? vocabulary_.entry(id) : std::string_view();
}

void append_escaped_spaces(std::string& out, std::string_view text) {
  while (true) {
    const size_t space = text.find(' ');
    out.append(text.substr(0, space));
    if (space == std::string_view::npos) return;
    out.append(kEscapedSpace);
    text.remove_prefix(space + 1);
  }
}

}  // namespace cairn::tokenizer
