#include "tokenizer/control_texts.h"

#include <random>

#include "base/error.h"

namespace cairn {
namespace {

Trie make_trie(const Tokenizer& tokenizer) {
  std::vector<Trie::Item> items;
  for (int32_t i = 0; i < tokenizer.size(); ++i) {
    const TokenId id{i};
    if (!tokenizer.is_control(id)) continue;  // user-defined tokens are part of the language
    if (const std::string_view text = tokenizer.piece(id, true); text.size() > 1) items.push_back({text, i});
  }
  return Trie(std::move(items));
}

}  // namespace

ControlTexts::ControlTexts(const Tokenizer& tokenizer) : trie_(make_trie(tokenizer)) {}

std::string_view ControlTexts::guard() {
  static const std::string text = [] {
    std::random_device random;
    return fmt::format("@@{:08x}{:08x}@@", random(), random());
  }();
  return text;
}

std::string ControlTexts::guarded(std::string_view text) const {
  std::string output;
  output.reserve(text.size());
  for (size_t begin = 0; begin < text.size(); ++begin) {
    output += text[begin];
    Trie::Node node = Trie::kRoot;
    for (size_t i = begin; i < text.size(); ++i) {
      node = trie_.child(node, static_cast<unsigned char>(text[i]));
      if (node == Trie::kNoNode) break;
      if (trie_.value(node) < 0) continue;
      output += guard();  // one within a token that begins another breaks both
      break;
    }
  }
  return output;
}

}  // namespace cairn
