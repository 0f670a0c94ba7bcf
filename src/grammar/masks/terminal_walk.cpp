#include "grammar/masks/terminal_walk.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "base/text/utf8.h"
#include "grammar/automaton.h"

namespace cairn::grammar {
namespace {

constexpr size_t kKeptBytesMax = size_t{64} << 20;  // of walks
constexpr uint32_t kKeptNodesMin = 64;              // walks over fewer nodes are made again
constexpr uint32_t kNearTextBytes = 256;            // within which texts end, so that bounds beyond do not matter
constexpr uint32_t kTreeNodesPerWork = 4;  // of a walk that find nothing new count as one node of an expression
constexpr size_t kPlainStatesMax = 64;     // that a terminal may be in after so many plain characters
// Work in a walk to find out what a terminal takes of plain text, at its beginning and further on: of all states there,
// and of one. Where that is more, walking through it is cheaper.
constexpr uint64_t kPlainWorkMax = 25'000;
constexpr uint64_t kPlainSubtreeWorkMax = 4'000;
constexpr uint64_t kPlainStateWork = 40;  // of a state whose derivatives are known
constexpr uint32_t kPlainSubtreeTokensMin = 16;

std::atomic<uint64_t> vocabularies = 0;

bool plain_ascii(uint8_t byte) { return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\'; }

// The tokens that are not plain, or have more than `most` characters.
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

  // Work so far.
  uint64_t spent() const { return spent_; }

  // How many plain characters `terminal` takes whatever they are, at most kCharactersMax; fewer where that takes more
  // than `work_max` to tell.
  struct Count {
    uint32_t characters = 0;
    bool no_more = false;  // then it takes none
    bool exits = false;    // it may be complete within them
  };
  Count count(RegexId terminal, uint64_t work_max) {
    work_max += spent_;
    std::vector<RegexId> states{terminal};
    std::vector<RegexId> next;
    Count result;
    while (result.characters < PlainTokens::kCharactersMax) {
      const Takes takes = spent_ > work_max ? Takes::kSome : step(states, next);
      result.no_more = takes == Takes::kNone;
      if (takes != Takes::kAll) break;
      result.characters = next == states ? PlainTokens::kCharactersMax : result.characters + 1;
      for (RegexId state : next) result.exits = result.exits || regexes_.matches_empty(state);
      std::swap(states, next);
    }
    return result;
  }

 private:
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
      const uint64_t before = work_.done;
      const Takes takes = find_step(state, after);
      spent_ += work_.done - before + kPlainStateWork;
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
  uint64_t spent_ = 0;
  bool far_ = false;
};

// Finds out how many characters of plain text a terminal takes, and which tree is left to walk through. Sets all of
// `walk` that says so.
void find_plain_text(PlainStates& plain, RegexId terminal, TerminalWalk& walk) {
  const PlainStates::Count count = plain.count(terminal, kPlainWorkMax);
  // Where only a few plain tokens are taken, and those are walked through anyway, nothing is gained.
  if (count.characters == 0) return;
  if (count.no_more) {
    walk.plain_characters = static_cast<int32_t>(count.characters);
    walk.tree = WalkedVocabulary::kTreeCharacters.size() - 1;
    walk.plain_exits = count.exits;
    return;
  }
  // Plain tokens of up to so many characters are taken as a whole, so that it does not matter where they may leave.
  for (uint32_t tree = 1; tree < WalkedVocabulary::kTreeCharacters.size(); ++tree) {
    if (WalkedVocabulary::kTreeCharacters[tree] > count.characters) break;
    walk.plain_characters = static_cast<int32_t>(WalkedVocabulary::kTreeCharacters[tree]);
    walk.tree = tree;
  }
}

// Walks through trees of a vocabulary with the states that a terminal is in.
class Walker {
 public:
  Walker(const WalkedVocabulary& vocabulary, RegexPool& regexes, TerminalWalk& walk)
      : vocabulary_(vocabulary),
        regexes_(regexes),
        walk_(walk),
        work_(regexes.new_count(RegexPool::WorkCount::Who::kWalk)),
        plain_(regexes, work_) {}

  void run(RegexId terminal) {
    find_plain_text(plain_, terminal, walk_);
    plain_work_max_ = plain_.spent() + kPlainWorkMax;
    const VocabularyTrie& trie = vocabulary_.tree(walk_.tree);
    at_.assign(vocabulary_.all().longest() + 1, number_of(terminal));
    const bool done =
        &trie == &vocabulary_.all() ? below<true>(trie, 0, walk_.exits) : below<false>(trie, 0, walk_.exits);
    walk_.far = walk_.far || plain_.far();
    walk_.work = work_.done + walk_.visited / kTreeNodesPerWork;
    walk_.too_large = !done || regexes_.full();
  }

 private:
  static constexpr uint32_t kDead = 0xFFFF'FFFF;
  static constexpr uint32_t kUnknown = 0xFFFF'FFFE;
  static constexpr uint32_t kFailed = 0xFFFF'FFFD;

  struct State {
    const uint8_t* classes = nullptr;  // of bytes
    uint32_t steps = 0;                // by class, from here in steps_
    bool complete = false;
    enum class Plain : uint8_t { kUnknown, kAll, kOther } plain = Plain::kUnknown;
    const RegexPool::State* of = nullptr;
  };

  uint32_t number_of(RegexId node) {
    const auto [place, added] = numbers_.try_emplace(node, static_cast<uint32_t>(states_.size()));
    if (!added) return place->second;
    const RegexPool::State& state = regexes_.state(node);
    walk_.far = walk_.far || (states_.size() > 0 && state.text_bytes > kNearTextBytes);
    states_.push_back({.classes = state.classes->of.data(),
                       .steps = static_cast<uint32_t>(steps_.size()),
                       .complete = regexes_.matches_empty(node),
                       .of = &state});
    steps_.insert(steps_.end(), state.classes->representatives.size(), kUnknown);
    return place->second;
  }

  uint32_t step(uint32_t from, uint8_t byte) {
    const RegexId next = regexes_.derivative(*states_[from].of, byte, work_);
    const bool failed = next == kUndecided || work_.done > kMaskWorkMax;
    const uint32_t result = failed ? kFailed : next == kNoMatch ? kDead : number_of(next);
    steps_[states_[from].steps + states_[from].classes[byte]] = result;
    return result;
  }

  bool takes_plain_text(uint32_t state) {
    if (states_[state].plain == State::Plain::kUnknown) {
      const bool all =
          plain_.spent() < plain_work_max_ &&
          plain_.count(states_[state].of->node, kPlainSubtreeWorkMax).characters == PlainTokens::kCharactersMax;
      states_[state].plain = all ? State::Plain::kAll : State::Plain::kOther;
    }
    return states_[state].plain == State::Plain::kAll;
  }

  void add(TokenId token) {
    if (!walk_.many.empty()) return add_token(walk_.many, token);
    walk_.few.push_back(token);
    if (walk_.few.size() * 32 > vocabulary_.words() * 64) keep_as_bits();
  }

  void keep_as_bits() {
    if (!walk_.many.empty()) return;
    walk_.many.assign(vocabulary_.words(), 0);
    for (TokenId token : walk_.few) add_token(walk_.many, token);
    walk_.few = {};
  }

  // False: over a limit.
  template <bool kAllTokens>
  bool below(const VocabularyTrie& trie, uint32_t root, std::vector<uint32_t>& exits) {
    const uint32_t end = trie.end(root);
    const PlainSubtree* plain = vocabulary_.plain_subtrees().data();  // one behind the last has no node
    for (uint32_t node = root + 1; node < end;) {
      ++walk_.visited;
      const uint32_t depth = trie.depth(node);
      const uint8_t byte = trie.byte(node);
      const State& from = states_[at_[depth - 1]];
      uint32_t next = steps_[from.steps + from.classes[byte]];
      if (next == kUnknown) next = step(at_[depth - 1], byte);
      if (next == kDead) {
        node = trie.end(node);
        continue;
      }
      if (next == kFailed) return false;
      at_[depth] = next;
      for (TokenId token : trie.tokens(node)) add(token);
      if constexpr (kAllTokens) {
        while (plain->node < node) ++plain;
        if (plain->node == node && takes_plain_text(next)) {
          keep_as_bits();
          for (uint32_t i = plain->first; i < plain->last; ++i) add_token(walk_.many, vocabulary_.plain_order()[i]);
          if (plain->other != 0) {
            if (states_[next].complete) walk_.other_exits.push_back(plain->other);
            if (!below<false>(vocabulary_.others(), plain->other, walk_.other_exits)) return false;
          }
          node = trie.end(node);
          continue;
        }
      }
      if (states_[next].complete && trie.end(node) > node + 1) exits.push_back(node);
      ++node;
    }
    return true;
  }

  const WalkedVocabulary& vocabulary_;
  RegexPool& regexes_;
  TerminalWalk& walk_;
  RegexPool::WorkCount work_;
  PlainStates plain_;
  uint64_t plain_work_max_ = 0;
  std::vector<State> states_;
  std::vector<uint32_t> steps_;
  std::vector<uint32_t> at_;  // by depth: a state
  std::unordered_map<RegexId, uint32_t> numbers_;
};

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
  find_plain_subtrees();
}

void WalkedVocabulary::find_plain_subtrees() {
  struct At {
    uint32_t other = 0;       // the node of the text up to here in the other tree; 0 behind the root: there is none
    uint32_t begin = 0;       // of the text's last character
    uint32_t characters = 0;  // before `begin`
    bool plain = false;       // up to `begin`
  };
  std::vector<At> path(all_.longest() + 1);
  path[0].plain = true;
  std::string text(all_.longest(), '\0');
  std::vector<uint32_t> plain_before(all_.size() + 1, 0);  // plain tokens before each node
  uint32_t other = 1;                                      // the first that is none of those seen
  for (uint32_t node = 1; node < all_.size(); ++node) {
    const uint32_t depth = all_.depth(node);
    const At& from = path[depth - 1];
    At& here = path[depth];
    here = from;
    here.other = 0;
    text[depth - 1] = static_cast<char>(all_.byte(node));
    plain_before[node] = static_cast<uint32_t>(plain_order_.size());
    const bool has_other = depth == 1 || from.other != 0;
    if (has_other && other < others().end(from.other) && others().byte(other) == all_.byte(node)) here.other = other++;
    const std::string_view last = std::string_view(text).substr(from.begin, depth - from.begin);
    const bool whole = from.plain && PlainTokens::characters(last) == 1;
    if (whole) {
      here.begin = depth;
      ++here.characters;
    } else if (utf8_decode(last, 0).length == 1 && static_cast<uint8_t>(last[0]) < 0x80) {
      here.plain = false;
    }
    if (!whole || here.characters > PlainTokens::kCharactersMax) continue;
    plain_order_.insert(plain_order_.end(), all_.tokens(node).begin(), all_.tokens(node).end());
    plain_subtrees_.push_back({.node = node, .other = here.other});
  }
  plain_before[all_.size()] = static_cast<uint32_t>(plain_order_.size());
  for (PlainSubtree& subtree : plain_subtrees_) {
    subtree.first = plain_before[subtree.node + 1];
    subtree.last = plain_before[all_.end(subtree.node)];
  }
  std::erase_if(plain_subtrees_,
                [](const PlainSubtree& subtree) { return subtree.last - subtree.first < kPlainSubtreeTokensMin; });
  plain_subtrees_.push_back({.node = all_.size()});
}

std::shared_ptr<const TerminalWalk> WalkedVocabulary::walk(RegexPool& regexes, RegexId terminal) const {
  // No token reaches the end of larger counts, so that they are all one.
  if (!regexes.has_conditions(terminal)) {
    return kept_walk(regexes, regexes.without_large_counts(terminal, all_.longest() + 1));
  }
  // In an expression with conditions, some texts may go on only to where bounds matter. If everywhere there is one that
  // ends before that, the bounds do not matter.
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
  if (!kept_.emplace(fingerprint, result).second) return result;
  kept_order_.push_back(fingerprint);
  kept_bytes_ += result->bytes();
  while (kept_bytes_ > kKeptBytesMax) {
    const auto oldest = kept_.find(kept_order_.front());
    kept_bytes_ -= oldest->second->bytes();
    kept_.erase(oldest);
    kept_order_.pop_front();
  }
  return result;
}

std::shared_ptr<const TerminalWalk> WalkedVocabulary::compute(RegexPool& regexes, RegexId terminal) const {
  auto result = std::make_shared<TerminalWalk>();
  Walker(*this, regexes, *result).run(terminal);
  return result;
}

}  // namespace cairn::grammar
