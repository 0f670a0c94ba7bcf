/// For tests: grammars and regular expressions drawn at random, with all their texts up to a length.
#pragma once

#include <bitset>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar::drawn {

inline constexpr size_t kLengthMax = 5;
inline constexpr std::string_view kAlphabet = "ab";
inline constexpr size_t kTexts = 63;  // of 0 to 5 letters
using Language = std::bitset<kTexts>;

inline const std::vector<std::string>& texts() {
  static const std::vector<std::string> result = [] {
    std::vector<std::string> all{""};
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].size() == kLengthMax) continue;
      for (char letter : kAlphabet) all.push_back(all[i] + letter);
    }
    return all;
  }();
  return result;
}

inline size_t number(std::string_view text) {
  size_t result = 0;
  for (char letter : text) result = result * 2 + 1 + (letter == 'b');
  return result;
}

inline Language join(const Language& a, const Language& b) {
  Language result;
  for (size_t i = 0; i < kTexts; ++i) {
    if (!a[i]) continue;
    for (size_t k = 0; k < kTexts; ++k) {
      if (b[k] && texts()[i].size() + texts()[k].size() <= kLengthMax) {
        result.set(number(texts()[i] + texts()[k]));
      }
    }
  }
  return result;
}

inline Language power(const Language& inner, uint32_t min, std::optional<uint32_t> max) {
  Language result;
  Language current;
  current.set(0);
  // Powers above a bound add no text of up to five letters that those below it do not have.
  for (uint32_t i = 0; i <= max.value_or(min + kLengthMax); ++i) {
    if (i >= min) result |= current;
    current = join(current, inner);
  }
  return result;
}

struct DrawnRegex {
  RegexId id;
  Language language;
  std::string text{};
};

class GrammarPicker {
 public:
  GrammarPicker(uint32_t seed, GrammarBuilder& builder) : random_(seed), builder_(builder) {}

  uint32_t below(uint32_t count) { return std::uniform_int_distribution<uint32_t>(0, count - 1)(random_); }

  DrawnRegex regex(int depth) {
    RegexPool& pool = builder_.regexes();
    if (depth == 0 || below(5) == 0) {
      std::string text;
      for (uint32_t i = below(3); i > 0; --i) text.push_back(kAlphabet[below(2)]);
      if (below(8) == 0) return {pool.bytes(ByteSet::of("ab")), Language().set(1).set(2), "."};
      return {pool.literal(text), Language().set(number(text)), "'" + text + "'"};
    }
    const DrawnRegex a = regex(depth - 1);
    const DrawnRegex b = regex(depth - 1);
    const RegexId both[] = {a.id, b.id};
    switch (below(7)) {
      case 0:
        return {pool.complement(a.id), ~a.language, "~(" + a.text + ")"};
      case 1:
        return {pool.all_of(both), a.language & b.language, "(" + a.text + "&" + b.text + ")"};
      case 2:
      case 3:
        return {pool.any_of(both), a.language | b.language, "(" + a.text + "|" + b.text + ")"};
      case 4: {
        const uint32_t min = below(4);
        const std::optional<uint32_t> max = below(3) == 0 ? std::nullopt : std::optional(min + below(3));
        return {pool.repeat(a.id, min, max), power(a.language, min, max),
                "(" + a.text + "){" + std::to_string(min) + "," + (max ? std::to_string(*max) : "") + "}"};
      }
      default:
        return {pool.sequence(both), join(a.language, b.language), a.text + b.text};
    }
  }

 private:
  std::mt19937 random_;
  GrammarBuilder& builder_;
};

struct DrawnGrammar {
  SymbolId start;
  Language language;
  std::string text;
};

inline DrawnGrammar draw_grammar(uint32_t seed, GrammarBuilder& builder) {
  GrammarPicker draw(seed, builder);
  std::vector<SymbolId> symbols;
  std::vector<std::function<Language(const std::vector<Language>&)>> meaning;
  const uint32_t rules = 1 + draw.below(4);
  for (uint32_t i = 0; i < rules; ++i) symbols.push_back(builder.rule("rule"));
  const uint32_t terminals = 1 + draw.below(4);
  std::vector<Language> known(rules);
  std::string what = "seed " + std::to_string(seed);
  for (uint32_t i = 0; i < terminals; ++i) {
    const DrawnRegex regex = draw.regex(static_cast<int>(draw.below(3)));
    symbols.push_back(builder.terminal(regex.id));
    what += "\n" + std::to_string(known.size()) + " = " + regex.text;
    known.push_back(regex.language);
  }
  struct Counted {
    uint32_t inner, min;
    std::optional<uint32_t> max;
  };
  std::vector<Counted> repeats;
  for (uint32_t i = draw.below(3); i > 0; --i) {
    const uint32_t min = draw.below(3);
    const Counted counted{draw.below(static_cast<uint32_t>(symbols.size())), min,
                          draw.below(2) == 0 ? std::nullopt : std::optional(min + draw.below(3))};
    symbols.push_back(builder.repeat(symbols[counted.inner], counted.min, counted.max));
    repeats.push_back(counted);
    what += "\n" + std::to_string(known.size()) + " = " + std::to_string(counted.inner) + "{" + std::to_string(min) +
            "," + (counted.max ? std::to_string(*counted.max) : "") + "}";
    known.emplace_back();
  }
  std::vector<std::vector<std::vector<uint32_t>>> alternatives(rules);
  for (uint32_t i = 0; i < rules; ++i) {
    for (uint32_t k = 1 + draw.below(3); k > 0; --k) {
      std::vector<uint32_t> parts;
      std::vector<SymbolId> ids;
      for (uint32_t length = draw.below(4); length > 0; --length) {
        parts.push_back(draw.below(static_cast<uint32_t>(symbols.size())));
        ids.push_back(symbols[parts.back()]);
      }
      builder.add(symbols[i], ids);
      what += "\n" + std::to_string(i) + " ->";
      for (uint32_t part : parts) what += " " + std::to_string(part);
      alternatives[i].push_back(parts);
    }
  }
  for (bool changed = true; changed;) {
    const std::vector<Language> before = known;
    for (size_t i = 0; i < repeats.size(); ++i) {
      known[rules + terminals + i] = power(known[repeats[i].inner], repeats[i].min, repeats[i].max);
    }
    for (uint32_t i = 0; i < rules; ++i) {
      for (const auto& alternative : alternatives[i]) {
        Language text = Language().set(0);
        for (uint32_t part : alternative) text = join(text, known[part]);
        known[i] |= text;
      }
    }
    changed = known != before;
  }
  return {symbols[0], known[0], what};
}

}  // namespace cairn::grammar::drawn
