#include "grammar/readers/substring.h"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "base/text/utf8.h"

namespace cairn::grammar {
namespace {

using Json = nlohmann::ordered_json;

/// Characters that words are made of, and white space: \w and \s of Unicode's regular expressions.
CharacterSet with_properties(std::initializer_list<std::string_view> names) {
  CharacterSet set;
  for (const std::string_view name : names) set = set | characters_with_property(name).value_or(CharacterSet{});
  return set;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> chunks;
  for (size_t at = 0; at < text.size();) {
    const auto bytes = static_cast<size_t>(utf8_decode(text, at).length);
    chunks.emplace_back(text.substr(at, bytes));
    at += bytes;
  }
  return chunks;
}

std::vector<std::string> words_of(std::string_view text) {
  static const CharacterSet word = with_properties({"Alphabetic", "M", "Nd", "Pc"});
  static const CharacterSet space = with_properties({"White_Space"});
  enum class Piece : uint8_t { kNone, kWord, kSpace, kOther };
  std::vector<std::string> chunks;
  Piece before = Piece::kNone;
  for (const std::string& character : characters_of(text)) {
    const char32_t value = utf8_decode(character, 0).value;
    const Piece piece = word.contains(value) ? Piece::kWord : space.contains(value) ? Piece::kSpace : Piece::kOther;
    if (piece != std::exchange(before, piece)) chunks.emplace_back();
    chunks.back() += character;
  }
  return chunks;
}

Result<std::vector<std::string>> chunks_of(const Json& what) {
  if (!what.is_object() || what.size() != 1)
    return fail(Code::kInvalidArgument,
                "expected one of substring_chunks, substring_words and substring_chars, and nothing beside it");
  const auto member = what.begin();
  const std::string& name = member.key();
  const Json& value = member.value();
  if (name == "substring_chunks") {
    std::vector<std::string> chunks;
    const auto invalid = [] { return fail(Code::kInvalidArgument, "substring_chunks must be a list of texts"); };
    if (!value.is_array()) return invalid();
    for (const Json& chunk : value) {
      if (!chunk.is_string()) return invalid();
      if (const auto& text = chunk.get_ref<const std::string&>(); !text.empty()) chunks.push_back(text);
    }
    return chunks;
  }
  if (name != "substring_words" && name != "substring_chars")
    return fail(Code::kUnsupported, "{} is not read; substring_chunks, substring_words and substring_chars are",
                printable(name, kEchoBytesMax));
  if (!value.is_string()) return fail(Code::kInvalidArgument, "{} must be a text", name);
  const auto& text = value.get_ref<const std::string&>();
  return name == "substring_words" ? words_of(text) : characters_of(text);
}

}  // namespace

Result<RegexId> read_substring(RegexPool& pool, const Json& what, Spelling spelling) {
  CAIRN_TRY(const std::vector<std::string> chunks, chunks_of(what));
  if (chunks.size() > kSubstringChunksMax)
    return fail(Code::kTooLarge, "there are {} chunks; at most {} are read", chunks.size(), kSubstringChunksMax);
  // The text ends behind each chunk, or goes on with the next one.
  RegexId rest = kEmptyText;
  std::vector<RegexId> beginnings;
  for (size_t i = chunks.size(); i-- > 0;) {
    const RegexId parts[] = {spell(pool, chunks[i], spelling), rest};
    rest = pool.repeat(pool.sequence(parts), 0, 1);
    beginnings.push_back(rest);
  }
  return pool.any_of(beginnings);
}

}  // namespace cairn::grammar
