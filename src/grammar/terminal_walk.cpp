#include "grammar/terminal_walk.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/text/utf8.h"
#include "grammar/automaton.h"

namespace cairn::grammar {
namespace {

constexpr size_t kKeptBytesMax = size_t{64} << 20;  // of walks; then all are dropped
constexpr uint32_t kKeptNodesMin = 64;              // walks over fewer nodes are made again
constexpr uint32_t kNearTextBytes = 256;            // within which texts end, so that bounds beyond do not matter
constexpr uint32_t kTreeNodesPerWork = 4;  // of a walk that find nothing new count as one node of an expression
constexpr size_t kPlainStatesMax = 64;     // that a terminal may be in after so many plain characters

std::atomic<uint64_t> vocabularies = 0;

bool plain_ascii(uint8_t byte) { return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\'; }

// Those that are not plain, or have more characters.
VocabularyTrie others_of(const std::vector<VocabularyTrie::Entry>& entries, uint32_t most) {
  std::vector<VocabularyTrie::Entry> result;
  for (const VocabularyTrie::Entry& entry : entries) {
    if (PlainTokens::characters(entry.bytes).value_or(most + 1) > most) result.push_back(entry);
  }
  return VocabularyTrie(std::move(result));
}

PlainTokens plain_of(const std::vector<VocabularyTrie::Entry>& entries, size_t words) {
  PlainTokens result;
  result.upto.assign(PlainTokens::kCharactersMax + 1, TokenBits(words));
  for (const VocabularyTrie::Entry& entry : entries) {
    const std::optional<uint32_t> characters = PlainTokens::characters(entry.bytes);
    if (!characters.has_value()) continue;
    for (size_t i = *characters; i < result.upto.size(); ++i) add_token(result.upto[i], entry.token);
  }
  return result;
}

// The states of a terminal after plain characters.
class PlainStates {
 public:
  PlainStates(RegexPool& regexes, RegexPool::WorkCount& work) : regexes_(regexes), work_(work) {}

  bool far() const { return far_; }  // see TerminalWalk

  enum class Takes { kAll, kNone, kSome };

  // What the states take of one plain character; kAll: and then they are `next`.
  Takes step(const std::vector<RegexId>& states, std::vector<RegexId>& next) {
    next.clear();
    size_t none = 0;
    for (RegexId state : states) {
      const Takes takes = step(state, next);
      if (takes == Takes::kSome) return takes;
      none += takes == Takes::kNone;
    }
    std::ranges::sort(next);
    next.erase(std::ranges::unique(next).begin(), next.end());
    if (none != 0) return none == states.size() ? Takes::kNone : Takes::kSome;
    return next.size() > kPlainStatesMax ? Takes::kSome : Takes::kAll;
  }

 private:
  // Byte ranges of UTF-8, leading byte first (Unicode 15, table 3-7).
  struct Form {
    uint8_t first, last;         // of the leading byte
    uint8_t second, second_end;  // of the next; further ones are 80 to BF
    int length;
  };
  static constexpr std::array<Form, 8> kForms{{{0xC2, 0xDF, 0x80, 0xBF, 2},
                                               {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                               {0xE1, 0xEC, 0x80, 0xBF, 3},
                                               {0xED, 0xED, 0x80, 0x9F, 3},
                                               {0xEE, 0xEF, 0x80, 0xBF, 3},
                                               {0xF0, 0xF0, 0x90, 0xBF, 4},
                                               {0xF1, 0xF3, 0x80, 0xBF, 4},
                                               {0xF4, 0xF4, 0x80, 0x8F, 4}}};

  void add(RegexId state, std::vector<RegexId>& states) {
    if (std::ranges::find(states, state) != states.end()) return;
    states.push_back(state);
    far_ = far_ || regexes_.state(state).text_bytes > kNearTextBytes;
  }

  // Adds the states after a byte of the range; false: not every byte is taken.
  bool over(RegexId state, uint32_t first, uint32_t last, std::vector<RegexId>& next) {
    const RegexPool::State& from = regexes_.state(state);
    RegexId before = kNoMatch;
    for (uint32_t byte = first; byte <= last; ++byte) {
      const RegexId after = regexes_.derivative(from, static_cast<uint8_t>(byte), work_);
      if (after == kNoMatch || after == kUndecided) return false;
      if (after != before) add(after, next);
      before = after;
    }
    return true;
  }

  Takes step(RegexId state, std::vector<RegexId>& next) {
    auto found = known_.find(state);
    if (found == known_.end()) {
      std::vector<RegexId> after;
      const Takes takes = find_step(state, after);
      found = known_.emplace(state, std::pair(takes, std::move(after))).first;
    }
    next.insert(next.end(), found->second.second.begin(), found->second.second.end());
    return found->second.first;
  }

  Takes find_step(RegexId state, std::vector<RegexId>& next) {
    const RegexPool::State& from = regexes_.state(state);
    size_t taken = 0;
    size_t plain = 0;
    for (uint32_t byte = 0x20; byte < 0xF5; ++byte) {
      if ((byte >= 0x7F && byte < 0xC2) || (byte < 0x7F && !plain_ascii(static_cast<uint8_t>(byte)))) continue;
      ++plain;
      taken += regexes_.derivative(from, static_cast<uint8_t>(byte), work_) != kNoMatch;
    }
    if (taken == 0) return Takes::kNone;
    if (taken != plain) return Takes::kSome;
    for (uint32_t byte = 0x20; byte < 0x7F; ++byte) {
      if (plain_ascii(static_cast<uint8_t>(byte)) && !over(state, byte, byte, next)) return Takes::kSome;
    }
    for (const Form& form : kForms) {
      std::vector<RegexId> within;
      if (!over(state, form.first, form.last, within)) return Takes::kSome;
      for (int place = 1; place < form.length; ++place) {
        std::vector<RegexId> further;
        for (RegexId inner : within) {
          const bool second = place == 1;
          if (!over(inner, second ? form.second : 0x80, second ? form.second_end : 0xBF, further)) return Takes::kSome;
          if (further.size() > kPlainStatesMax) return Takes::kSome;
        }
        within = std::move(further);
      }
      for (RegexId after : within) {
        add(after, next);
      }
    }
    return Takes::kAll;
  }

  RegexPool& regexes_;
  RegexPool::WorkCount& work_;
  std::unordered_map<RegexId, std::pair<Takes, std::vector<RegexId>>> known_;
  bool far_ = false;
};

// Finds out how many characters of plain text a terminal takes, and which tree is left to walk through. Sets all of
// `walk` that says so.
void find_plain_text(RegexPool& regexes, RegexPool::WorkCount& work, RegexId terminal, TerminalWalk& walk) {
  PlainStates plain(regexes, work);
  std::vector<RegexId> states{terminal};
  std::vector<RegexId> next;
  bool exits = false;
  uint32_t count = 0;  // characters of which all texts are taken
  PlainStates::Takes takes = PlainStates::Takes::kAll;
  for (; count < PlainTokens::kCharactersMax; ++count) {
    takes = work.done > kMaskWorkMax ? PlainStates::Takes::kSome : plain.step(states, next);
    if (takes != PlainStates::Takes::kAll) break;
    if (next == states) count = PlainTokens::kCharactersMax - 1;
    for (RegexId state : next) exits = exits || regexes.matches_empty(state);
    std::swap(states, next);
  }
  walk.far = plain.far();
  // Where only a few plain tokens are taken, and those are walked through anyway, nothing is gained.
  if (count == 0) return;
  if (takes == PlainStates::Takes::kNone) {
    walk.plain_characters = static_cast<int32_t>(count);
    walk.tree = WalkedVocabulary::kTreeCharacters.size() - 1;
    walk.plain_exits = exits;
    return;
  }
  // Plain tokens of up to so many characters are taken as a whole, so that it does not matter where they may leave.
  for (uint32_t tree = 1; tree < WalkedVocabulary::kTreeCharacters.size(); ++tree) {
    if (WalkedVocabulary::kTreeCharacters[tree] > count) break;
    walk.plain_characters = static_cast<int32_t>(WalkedVocabulary::kTreeCharacters[tree]);
    walk.tree = tree;
  }
}

}  // namespace

std::optional<uint32_t> PlainTokens::characters(std::string_view bytes) {
  uint32_t count = 0;
  for (size_t i = 0; i < bytes.size(); ++count) {
    const Utf8Char character = utf8_decode(bytes, i);
    if (!character.well_formed || count == kCharactersMax) return std::nullopt;
    if (character.value < 0x80 && !plain_ascii(static_cast<uint8_t>(character.value))) return std::nullopt;
    i += static_cast<size_t>(character.length);
  }
  return count;
}

bool PlainTokens::begins(const ByteSet& bytes) {
  for (uint32_t byte = 0x20; byte < 256; ++byte) {
    if (bytes.contains(static_cast<uint8_t>(byte)) && (byte > 0x7F || plain_ascii(static_cast<uint8_t>(byte))))
      return true;
  }
  return false;
}

WalkedVocabulary::WalkedVocabulary(std::vector<VocabularyTrie::Entry> entries, size_t words)
    : id_(++vocabularies), words_(words), all_(entries), plain_(plain_of(entries, words)) {
  for (size_t i = 1; i < kTreeCharacters.size(); ++i) others_.push_back(others_of(entries, kTreeCharacters[i]));
}

std::shared_ptr<const TerminalWalk> WalkedVocabulary::walk(RegexPool& regexes, RegexId terminal) const {
  // No token reaches the end of larger counts, so that they are all one.
  if (!regexes.has_conditions(terminal)) {
    return kept_walk(regexes, regexes.without_large_counts(terminal, all_.longest() + 1));
  }
  // Of expressions with conditions, some texts may go on only to where bounds matter. If everywhere there is one that
  // ends before that, they do not.
  const uint32_t token_bytes = std::max(all_.longest(), 4 * PlainTokens::kCharactersMax);
  const RegexId near = regexes.without_far_bounds(terminal, token_bytes + kNearTextBytes);
  if (near != terminal) {
    const std::shared_ptr<const TerminalWalk> result = kept_walk(regexes, near);
    if (!result->far && !result->too_large) return result;
  }
  return kept_walk(regexes, terminal);
}

std::shared_ptr<const TerminalWalk> WalkedVocabulary::kept_walk(RegexPool& regexes, RegexId terminal) const {
  const RegexFingerprint fingerprint = regexes.fingerprint(terminal);
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(fingerprint);
    if (found != kept_.end()) return found->second;
  }
  std::shared_ptr<const TerminalWalk> result = compute(regexes, terminal);
  if (result->visited < kKeptNodesMin) return result;
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ + result->bytes() > kKeptBytesMax) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  if (kept_.emplace(fingerprint, result).second) kept_bytes_ += result->bytes();
  return result;
}

std::shared_ptr<const TerminalWalk> WalkedVocabulary::compute(RegexPool& regexes, RegexId terminal) const {
  auto result = std::make_shared<TerminalWalk>();
  RegexPool::WorkCount work = regexes.new_count(RegexPool::WorkCount::Who::kWalk);
  find_plain_text(regexes, work, terminal, *result);
  const VocabularyTrie& trie = tree(result->tree);
  std::vector<const RegexPool::State*> states(trie.longest() + 1, &regexes.state(terminal));
  for (uint32_t node = 1; node < trie.size();) {
    ++result->visited;
    const uint32_t depth = trie.depth(node);
    const RegexId next = regexes.derivative(*states[depth - 1], trie.byte(node), work);
    if (next == kNoMatch) {
      node = trie.end(node);
      continue;
    }
    if (next == kUndecided || work.done > kMaskWorkMax) {
      result->too_large = true;
      return result;
    }
    if (states[depth]->node != next) {
      states[depth] = &regexes.state(next);
      result->far = result->far || states[depth]->text_bytes > kNearTextBytes;
    }
    for (TokenId token : trie.tokens(node)) result->few.push_back(token);
    if (regexes.matches_empty(next) && trie.end(node) > node + 1) result->exits.push_back(node);
    ++node;
  }
  result->work = work.done + result->visited / kTreeNodesPerWork;
  result->too_large = regexes.full();
  if (result->few.size() * 32 > words_ * 64) {
    result->many.assign(words_, 0);
    for (TokenId token : result->few) add_token(result->many, token);
    result->few = {};
  }
  return result;
}

}  // namespace cairn::grammar
