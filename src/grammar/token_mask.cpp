#include "grammar/token_mask.h"

#include <algorithm>
#include <string>

#include "grammar/automaton.h"
#include "grammar/mask_cache.h"
#include "grammar/matcher_state.h"
#include "grammar/terminal_walk.h"

namespace cairn::grammar {
namespace {

// The first byte of control_token_bytes(), which UTF-8 never has.
constexpr char kControlByte = '\xFF';

// Sets the bits of what is below a node of the vocabulary's tree for a text whose row at the node is `row`.
class RowWalk {
 public:
  RowWalk(Automaton& automaton, std::span<uint64_t> mask) : automaton_(automaton), mask_(mask) {}

  // False: over a limit, so that the mask lacks tokens.
  bool below(const VocabularyTrie& trie, uint32_t node, RowId row) {
    if (rows_.size() < trie.longest() + 1) rows_.resize(trie.longest() + 1);
    const uint32_t end = trie.end(node);
    rows_[trie.depth(node)] = row;
    for (uint32_t i = node + 1; i < end;) {
      const uint32_t depth = trie.depth(i);
      const RowId next = automaton_.step(rows_[depth - 1], trie.byte(i));
      if (next == kTooLargeRow || automaton_.work() > kMaskWorkMax) return false;
      if (next == kNoRow) {
        i = trie.end(i);
        continue;
      }
      rows_[depth] = next;
      for (TokenId token : trie.tokens(i)) add_token(mask_, token);
      ++i;
    }
    return true;
  }

 private:
  Automaton& automaton_;
  std::span<uint64_t> mask_;
  std::vector<RowId> rows_;
};

std::vector<std::string> pieces_of(const Tokenizer& tokenizer) {
  std::vector<std::string> result(static_cast<size_t>(tokenizer.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const TokenId token{static_cast<int32_t>(i)};
    if (tokenizer.ends_generation(token)) continue;
    if (tokenizer.is_control(token)) {
      result[i] = control_token_bytes(token);
    } else if (const std::string_view piece = tokenizer.piece(token, false); !piece.contains(kControlByte)) {
      result[i] = piece;
    }
  }
  return result;
}

std::vector<TokenId> ends_of(const Tokenizer& tokenizer) {
  std::vector<TokenId> result;
  for (int32_t i = 0; i < tokenizer.size(); ++i) {
    if (tokenizer.ends_generation(TokenId{i})) result.push_back(TokenId{i});
  }
  return result;
}

void unite(std::span<uint64_t> mask, const TokenBits& bits) {
  for (size_t i = 0; i < mask.size(); ++i) mask[i] |= bits[i];
}

std::shared_ptr<const TerminalWalk> walk_of(const WalkedVocabulary& vocabulary, Automaton& automaton, MaskCache& cache,
                                            RegexId terminal) {
  auto& kept = cache.walks[terminal];
  if (kept == nullptr) kept = vocabulary.walk(automaton.regexes(), terminal);
  automaton.add_work(kept->work);
  return kept;
}

// False: over a limit on the work, so that the mask lacks tokens.
bool compute_row(const WalkedVocabulary& vocabulary, Automaton& automaton, MaskCache& cache, RowId row,
                 std::span<uint64_t> mask) {
  RowWalk rows(automaton, mask);
  automaton.begin_work();
  if (automaton.too_large(row)) return false;
  const size_t count = automaton.terminals(row);
  for (size_t i = 0; i < count; ++i) {
    const auto walk = walk_of(vocabulary, automaton, cache, automaton.terminal(row, i));
    if (walk->too_large || automaton.work() > kMaskWorkMax) return false;
    if (walk->plain_characters >= 0) {
      unite(mask, vocabulary.plain().upto[static_cast<size_t>(walk->plain_characters)]);
    }
    if (!walk->many.empty()) unite(mask, walk->many);
    for (TokenId token : walk->few) add_token(mask, token);
    if (walk->exits.empty() && !walk->plain_exits) continue;
    const VocabularyTrie& trie = vocabulary.tree(walk->tree);
    if (automaton.tracked(row, i)) {
      if (walk->plain_exits) return rows.below(vocabulary.all(), 0, row);
      for (uint32_t node : walk->exits) {
        const RowId after = automaton.after_terminal(row, i, trie.path(node));
        if (after == kNoRow) continue;
        if (after == kTooLargeRow || !rows.below(trie, node, after)) return false;
      }
      continue;
    }
    const RowId after = automaton.after_terminal(row, i);
    if (after == kNoRow) continue;
    if (after == kTooLargeRow || automaton.too_large(after)) return false;
    const ByteSet next = automaton.next_bytes(after);
    if (next.empty()) continue;
    if (walk->plain_exits && PlainTokens::begins(next)) {
      // Plain tokens may leave the terminal half-way, and be neither too long for what follows nor for the terminal.
      return rows.below(vocabulary.all(), 0, row);
    }
    for (uint32_t node : walk->exits) {
      if (!rows.below(trie, node, after)) return false;
    }
  }
  return true;
}

}  // namespace

std::string control_token_bytes(TokenId token) {
  constexpr int kDigits = 4;
  constexpr uint32_t kDigitBits = 6;
  std::string bytes(1, kControlByte);
  auto left = static_cast<uint32_t>(index(token));
  for (int i = 0; i < kDigits; ++i, left >>= kDigitBits)
    bytes += static_cast<char>(0x80 | (left & ((uint32_t{1} << kDigitBits) - 1)));
  return bytes;
}

TokenMasks::TokenMasks(std::vector<std::string> pieces, std::vector<TokenId> ends)
    : pieces_(std::move(pieces)), ends_(std::move(ends)) {
  std::vector<VocabularyTrie::Entry> entries;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].size() > kTokenBytesMax) pieces_[i].clear();
    if (!pieces_[i].empty()) entries.push_back({pieces_[i], TokenId{static_cast<int32_t>(i)}});
  }
  vocabulary_ = std::make_unique<WalkedVocabulary>(std::move(entries), (pieces_.size() + 63) / 64);
}

TokenMasks::TokenMasks(const Tokenizer& tokenizer) : TokenMasks(pieces_of(tokenizer), ends_of(tokenizer)) {}

TokenMasks::~TokenMasks() = default;

size_t TokenMasks::words() const { return vocabulary_->words(); }

bool TokenMasks::ends_generation(TokenId token) const { return std::ranges::binary_search(ends_, token); }

bool TokenMasks::push(Matcher& matcher, TokenId token) const {
  const auto i = static_cast<size_t>(index(token));
  if (i >= pieces_.size() || pieces_[i].empty()) return false;
  const size_t before = matcher.position();
  if (matcher.push(pieces_[i]) == pieces_[i].size()) return true;
  // A failure outlives the way back.
  std::optional<Error> failure = matcher.failure();
  matcher.rewind(before);
  matcher.state().failure = std::move(failure);
  return false;
}

bool TokenMasks::allows(Matcher& matcher, TokenId token) const {
  if (ends_generation(token)) return matcher.may_end();
  const size_t before = matcher.position();
  if (!push(matcher, token)) return false;
  matcher.rewind(before);
  return true;
}

void TokenMasks::compute(Matcher& matcher, std::span<uint64_t> mask) const {
  std::ranges::fill(mask, 0);
  Matcher::State& state = matcher.state();
  if (state.failure.has_value()) return;
  state.collect();
  MaskCache& cache = state.automaton->masks_for(*vocabulary_);
  const RowId row = state.rows.back();
  if (!cache.get(row, mask)) {
    if (!compute_row(*vocabulary_, *state.automaton, cache, row, mask)) {
      state.fail_at_limit();
      std::ranges::fill(mask, 0);
      return;
    }
    cache.put(row, mask);
  }
  if (!matcher.may_end()) return;
  for (TokenId token : ends_) add_token(mask, token);
}

}  // namespace cairn::grammar
