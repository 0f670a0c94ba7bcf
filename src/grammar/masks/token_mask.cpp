#include "grammar/masks/token_mask.h"

#include <algorithm>
#include <string>

#include "grammar/automaton.h"
#include "grammar/masks/mask_cache.h"
#include "grammar/masks/terminal_walk.h"
#include "grammar/matcher_state.h"

namespace cairn::grammar {
namespace {

// The first byte of control_token_bytes(), which UTF-8 never has.
constexpr char kControlByte = '\xFF';
constexpr size_t kWideTerminalsMin = 3;  // that are walked through as one
constexpr size_t kWideBytesMin = 64;     // that texts of such a terminal may begin with
// Terminals that few texts begin with, as the names of an object's members, that are walked through as a row.
constexpr size_t kNarrowTerminalsMin = 32;

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

std::vector<std::string> pieces_of(const tokenizer::Tokenizer& tokenizer) {
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

std::vector<TokenId> ends_of(const tokenizer::Tokenizer& tokenizer) {
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
  return kept;
}

void add_within(const WalkedVocabulary& vocabulary, const TerminalWalk& walk, std::span<uint64_t> mask) {
  if (walk.plain_characters >= 0) unite(mask, vocabulary.plain().upto[static_cast<size_t>(walk.plain_characters)]);
  if (!walk.many.empty()) unite(mask, walk.many);
  for (TokenId token : walk.few) add_token(mask, token);
}

// Computes the mask of a row.
class RowMask {
 public:
  RowMask(const WalkedVocabulary& vocabulary, Automaton& automaton, MaskCache& cache, RowId row,
          std::span<uint64_t> mask)
      : vocabulary_(vocabulary),
        automaton_(automaton),
        cache_(cache),
        row_(row),
        mask_(mask),
        rows_(automaton, mask),
        count_(automaton.terminals(row)) {}

  // False: over a limit on the work, so that the mask lacks tokens.
  bool compute() {
    automaton_.begin_work();
    if (automaton_.too_large(row_)) return false;
    find_wide();
    if (!wide_.empty()) {
      const Outcome outcome = add_wide();
      if (outcome == Outcome::kTooLarge || outcome == Outcome::kWhole) return outcome == Outcome::kWhole;
      if (outcome == Outcome::kNothing) wide_.clear();
    }
    find_narrow();
    if (!add_narrow()) {
      // Rows have limits that one terminal after the other may not reach.
      narrow_.clear();
      automaton_.begin_work();
    }
    return add_terminals();
  }

 private:
  enum class Outcome {
    kTooLarge,
    kNothing,  // the terminals must be looked at one by one
    kAdded,
    kWhole,  // nothing is left to do
  };

  // Terminals that many texts begin with take long to walk through. Where there are several, the tokens that keep
  // within one of them are those that keep within their union.
  void find_wide() {
    if (count_ < kWideTerminalsMin) return;
    for (size_t i = 0; i < count_; ++i) {
      const RegexId terminal = automaton_.terminal(row_, i);
      if (!automaton_.tracked(row_, i) && automaton_.regexes().first_bytes(terminal).size() >= kWideBytesMin)
        wide_.push_back(terminal);
    }
    std::ranges::sort(wide_);
    wide_.erase(std::ranges::unique(wide_).begin(), wide_.end());
    if (wide_.size() < kWideTerminalsMin) wide_.clear();
  }

  // Which of the terminals ends where the union may be complete does not matter: the row's steps know.
  Outcome add_wide() {
    const auto walk = walk_of(vocabulary_, automaton_, cache_, automaton_.regexes().any_of(wide_));
    if (walk->too_large) return Outcome::kNothing;
    automaton_.add_work(walk->work);
    if (automaton_.work() > kMaskWorkMax) return Outcome::kTooLarge;
    if (walk->plain_exits) return rows_.below(vocabulary_.all(), 0, row_) ? Outcome::kWhole : Outcome::kTooLarge;
    add_within(vocabulary_, *walk, mask_);
    const bool added =
        below_exits(vocabulary_.tree(walk->tree), walk->exits) && below_exits(vocabulary_.others(), walk->other_exits);
    return added ? Outcome::kAdded : Outcome::kTooLarge;
  }

  // For each of many terminals by itself the walk takes longer than the rows of all of them. Those with conditions, as
  // all other names are, would keep every byte's row alive.
  void find_narrow() {
    if (count_ < kNarrowTerminalsMin) return;
    RegexPool& regexes = automaton_.regexes();
    for (size_t i = 0; i < count_; ++i) {
      const RegexId terminal = automaton_.terminal(row_, i);
      if (!automaton_.tracked(row_, i) && !regexes.has_conditions(terminal) &&
          regexes.first_bytes(terminal).size() < kWideBytesMin)
        narrow_.push_back(i);
    }
    if (narrow_.size() < kNarrowTerminalsMin || narrow_.size() > kKernelItemsMax) narrow_.clear();
  }

  bool add_narrow() {
    if (narrow_.empty()) return true;
    const RowId row = automaton_.row_of_terminals(row_, narrow_);
    return row != kTooLargeRow && !automaton_.too_large(row) && rows_.below(vocabulary_.all(), 0, row);
  }

  bool below_exits(const VocabularyTrie& trie, const std::vector<uint32_t>& nodes) {
    for (uint32_t node : nodes) {
      RowId row = row_;
      for (const char byte : trie.path(node)) {
        row = automaton_.step(row, static_cast<uint8_t>(byte));
        if (row == kTooLargeRow) return false;
        if (row == kNoRow) break;
      }
      if (row != kNoRow && !rows_.below(trie, node, row)) return false;
    }
    return true;
  }

  bool add_terminals() {
    for (size_t i = 0; i < count_; ++i) {
      const RegexId terminal = automaton_.terminal(row_, i);
      if (!automaton_.tracked(row_, i) && std::ranges::binary_search(wide_, terminal)) continue;
      if (std::ranges::binary_search(narrow_, i)) continue;
      const auto walk = walk_of(vocabulary_, automaton_, cache_, terminal);
      automaton_.add_work(walk->work);
      if (walk->too_large || automaton_.work() > kMaskWorkMax) return false;
      add_within(vocabulary_, *walk, mask_);
      if (walk->exits.empty() && walk->other_exits.empty() && !walk->plain_exits) continue;
      bool whole = false;
      if (!(automaton_.tracked(row_, i) ? leave_tracked(i, *walk, whole) : leave(i, *walk, whole))) return false;
      if (whole) return true;
    }
    return true;
  }

  // Adds the tokens that leave a terminal. `whole`: nothing else is left to do.
  bool leave(size_t i, const TerminalWalk& walk, bool& whole) {
    const RowId after = automaton_.after_terminal(row_, i);
    if (after == kNoRow) return true;
    if (after == kTooLargeRow || automaton_.too_large(after)) return false;
    const ByteSet next = automaton_.next_bytes(after);
    if (next.empty()) return true;
    if (walk.plain_exits && PlainTokens::begins(next)) {
      // Plain tokens may leave the terminal half-way, and be neither too long for what follows nor for the terminal.
      whole = true;
      return rows_.below(vocabulary_.all(), 0, row_);
    }
    for (uint32_t node : walk.exits) {
      if (!rows_.below(vocabulary_.tree(walk.tree), node, after)) return false;
    }
    for (uint32_t node : walk.other_exits) {
      if (!rows_.below(vocabulary_.others(), node, after)) return false;
    }
    return true;
  }

  bool leave_tracked(size_t i, const TerminalWalk& walk, bool& whole) {
    if (walk.plain_exits) {
      whole = true;
      return rows_.below(vocabulary_.all(), 0, row_);
    }
    const auto leave_at = [&](const VocabularyTrie& trie, uint32_t node) {
      const RowId after = automaton_.after_terminal(row_, i, trie.path(node));
      return after == kNoRow || (after != kTooLargeRow && rows_.below(trie, node, after));
    };
    const auto& tree = vocabulary_.tree(walk.tree);
    return std::ranges::all_of(walk.exits, [&](uint32_t node) { return leave_at(tree, node); }) &&
           std::ranges::all_of(walk.other_exits, [&](uint32_t node) { return leave_at(vocabulary_.others(), node); });
  }

  const WalkedVocabulary& vocabulary_;
  Automaton& automaton_;
  MaskCache& cache_;
  RowId row_;
  std::span<uint64_t> mask_;
  RowWalk rows_;
  size_t count_;
  std::vector<RegexId> wide_;   // ascending
  std::vector<size_t> narrow_;  // numbers of terminals, ascending
};

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

ByteSet text_bytes() { return ~ByteSet::of(std::string_view(&kControlByte, 1)); }

TokenMasks::TokenMasks(std::vector<std::string> pieces, std::vector<TokenId> ends)
    : pieces_(std::move(pieces)), ends_(std::move(ends)) {
  std::vector<VocabularyTrie::Entry> entries;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].size() > kTokenBytesMax) pieces_[i].clear();
    if (!pieces_[i].empty()) entries.push_back({pieces_[i], TokenId{static_cast<int32_t>(i)}});
  }
  vocabulary_ = std::make_unique<WalkedVocabulary>(std::move(entries), (pieces_.size() + 63) / 64);
}

TokenMasks::TokenMasks(const tokenizer::Tokenizer& tokenizer) : TokenMasks(pieces_of(tokenizer), ends_of(tokenizer)) {}

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

bool TokenMasks::knows(const Matcher& matcher, TokenId token) const {
  const Matcher::State& state = matcher.state();
  if (state.failure.has_value()) return true;
  if (state.is_full()) return false;
  RowId row = state.rows.back();
  for (const char byte : token == kNoToken ? std::string_view() : piece(token)) {
    const std::optional<RowId> next = state.automaton->known_step(row, static_cast<uint8_t>(byte));
    if (!next.has_value()) return false;
    if (*next >= kTooLargeRow) return true;
    row = *next;
  }
  return state.automaton->looked_at(row) && state.automaton->has_mask(*vocabulary_, row);
}

void TokenMasks::compute(Matcher& matcher, std::span<uint64_t> mask) const {
  std::ranges::fill(mask, 0);
  Matcher::State& state = matcher.state();
  if (state.failure.has_value()) return;
  state.collect();
  MaskCache& cache = state.automaton->masks_for(*vocabulary_);
  const RowId row = state.rows.back();
  if (!cache.get(row, mask)) {
    if (!RowMask(*vocabulary_, *state.automaton, cache, row, mask).compute()) {
      state.fail_at_limit();
      std::ranges::fill(mask, 0);
      return;
    }
    const uint64_t work = state.automaton->work();
    cache.put(row, mask);
    if (work > kLargeMaskWork) cache.large_work[row] = work;
  }
  const auto large = cache.large_work.find(row);
  if (large != cache.large_work.end() && !state.count_work(large->second)) {
    std::ranges::fill(mask, 0);
    return;
  }
  if (!matcher.may_end()) return;
  for (TokenId token : ends_) add_token(mask, token);
}

}  // namespace cairn::grammar
