/// An Earley parser (Earley 1970) over bytes whose rows are shared: equal rows are one row, and steps are remembered.
///
/// A row is what the parser knows after some bytes. Its items refer to the rows in which their rules began, and a row
/// is named by its items; so two texts after which the same texts may follow in the same way mostly end in the same
/// row. Where a grammar needs no stack, a row is a state of a deterministic automaton that is built as far as texts
/// need it; where it does, rows of the outer rules are the stack. An item whose rule ends with the awaited symbol gives
/// way to those that wait for its rule (Leo 1991, but when the item is made): right recursion repeats rows.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar_tables.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

inline constexpr size_t kRowItemsMax = 20'000;    ///< items of one row
inline constexpr size_t kKernelItemsMax = 2'000;  ///< those of them that are not at the beginning of a rule
inline constexpr uint32_t kRowDepthMax = 2'048;   ///< rules within each other that began at different places of a text
/// Items that may be looked at for a step from one row to the next.
inline constexpr uint64_t kStepWorkMax = 500'000;
inline constexpr uint64_t kItemWork = 3;  ///< the work of an item, in nodes of expressions
/// Work that may be done for one byte of a text, or one mask: a second where it is of the slowest kind.
inline constexpr uint64_t kMaskWorkMax = 8'000'000;
/// Work of a byte or a mask from which on it counts against the answer, and what an answer may take of that in all.
inline constexpr uint64_t kLargeMaskWork = 1'000'000;
inline constexpr uint64_t kAnswerWorkMax = 40'000'000;

struct MaskCache;
class WalkedVocabulary;

enum class RowId : uint32_t {};
inline constexpr RowId kNoRow{0xFFFF'FFFF};  ///< no text goes on so
/// Over kRowItemsMax, kKernelItemsMax, kRowDepthMax or kStepWorkMax, or a regex pool's limits.
inline constexpr RowId kTooLargeRow{0xFFFF'FFFE};

/// Rows of one grammar. Not thread-safe. What it answers depends on the grammar and the bytes alone, never on what it
/// was asked before.
class Automaton {
 public:
  /// An item of a row. It waits for a rule or repetition to end that begins at the row, or it is within a terminal.
  struct Item {
    uint32_t symbol;  ///< what it waits for, or kBetween, kTracked or kWithin
    uint32_t position;
    uint32_t origin;  ///< the row where its rule began, or kSelf
    /// kWithin: the expression that the terminal's rest must match. A repetition: those counted. A list of members: its
    /// state, by number. A list of distinct texts: its track, by number.
    uint32_t extra;
    auto operator<=>(const Item&) const = default;
  };
  static constexpr uint32_t kWithin = 0xFFFF'FFFF;
  static constexpr uint32_t kTracked = 0xFFFF'FFFE;  ///< within one of a list of distinct texts
  static constexpr uint32_t kBetween = 0xFFFF'FFFD;  ///< behind a separator of members: it stands for what may come
  static constexpr uint32_t kSelf = 0xFFFF'FFFF;

  explicit Automaton(const Grammar& grammar);

  RowId start() const { return RowId{0}; }
  RowId step(RowId row, uint8_t byte);
  /// The row after the byte, if that was found out before.
  std::optional<RowId> known_step(RowId row, uint8_t byte) const;
  /// Whether it was found out which bytes may come next.
  bool looked_at(RowId row) const { return rows_[index(row)].looked_ahead; }
  bool may_end(RowId row) const { return rows_[index(row)].may_end; }
  /// All bytes, if a limit is reached before they are known.
  const ByteSet& next_bytes(RowId row);
  bool too_large(RowId row) {
    look_ahead(index(row));
    return rows_[index(row)].too_large;
  }
  RegexPool& regexes() { return regexes_; }
  /// Terminals that a row is within, and what the rest of one must match.
  size_t terminals(RowId row) const;
  RegexId terminal(RowId row, size_t which) const { return expression(items_[terminal_item(row, which)]); }
  /// Whether what follows the terminal depends on its text.
  bool tracked(RowId row, size_t which) const { return items_[terminal_item(row, which)].symbol == kTracked; }
  /// The row after bytes that end the terminal, if the terminal could not go on. kNoRow: none follows. The bytes matter
  /// only where the terminal is tracked.
  RowId after_terminal(RowId row, size_t which, std::string_view bytes = {});
  /// The row of those terminals alone: after any bytes it leads to what they lead to. kTooLargeRow: over a limit.
  RowId row_of_terminals(RowId row, std::span<const size_t> which);
  /// What is kept of the masks of a vocabulary.
  MaskCache& masks_for(const WalkedVocabulary& vocabulary);
  /// Whether a mask of the row is kept.
  bool has_mask(const WalkedVocabulary& vocabulary, RowId row) const;

  /// The work of what was asked since begin_work(), in nodes of expressions: the same whether it was done before or
  /// not.
  uint64_t work() const { return work_.done; }
  void begin_work() { work_ = regexes_.new_count(RegexPool::WorkCount::Who::kRows); }
  void add_work(uint64_t work) { work_.done += work; }

  /// Approximate memory that grows with what was asked.
  size_t bytes_used() const;
  /// Forgets all rows but the first.
  void clear();

 private:
  static constexpr uint32_t kUnknown = 0xFFFF'FFFD;

  // Items from `begin`: first the kernel, which names the row, then those that follow from it, whose origin is kSelf.
  // Both are ascending, so that those kWithin come last.
  struct Row {
    ByteSet next;
    size_t begin = 0;
    uint32_t kernel_waiting = 0;  // counts
    uint32_t kernel = 0;
    uint32_t waiting = 0;  // from the kernel's end
    uint32_t end = 0;
    uint64_t predict_work = 0;
    uint64_t hash = 0;                 // of its kernel
    const uint8_t* classes = nullptr;  // of the bytes: those of one lead to the same row
    size_t steps = 0;                  // by class, from here in steps_
    uint32_t work_counted = 0;         // the last of the counts of work that had its expressions' derivatives
    uint64_t look_work = 0;            // of its expressions' derivatives
    uint32_t depth = 0;
    bool may_end = false;
    bool looked_ahead = false;
    bool too_large = false;  // its next bytes take more than kStepWorkMax to tell
  };
  struct Step {
    uint32_t row = 0;
    uint32_t work = 0;
  };

  /// How far a list of distinct texts has been matched.
  struct Track {
    RegexId rest;   ///< what the rest of the text must match
    RegexId seen;   ///< the texts that have been
    uint32_t text;  ///< its bytes so far, by number
    uint32_t count;
    auto operator<=>(const Track&) const = default;
  };

  static uint32_t index(RowId row) { return static_cast<uint32_t>(row); }
  static uint32_t resolve(uint32_t origin, uint32_t row) { return origin == kSelf ? row : origin; }

  RegexId expression(const Item& item) const {
    return item.symbol == kTracked ? tracks_[item.extra].rest : RegexId{item.extra};
  }
  uint32_t track_number(const Track& track);
  uint32_t text_number(uint32_t begin, uint8_t byte);
  void ended_text(uint32_t position, uint32_t origin, const Track& track);
  void begin_text(uint32_t position, uint32_t origin, const Track& track);
  size_t terminal_item(RowId row, size_t which) const;
  template <class Visit>
  void each_within(uint32_t row, Visit visit) const;
  void look_ahead(uint32_t row);
  void find_classes(Row& row, bool tracked);
  struct Classes {
    std::array<uint8_t, 256> of{};
    uint32_t count = 0;
  };
  static Classes common_classes(std::span<const RegexPool::ByteClasses* const> parts);
  bool over_limits() const;
  void begin_row();
  RowId compute(uint32_t row, uint8_t byte);
  bool remember(const Item& item);
  void add(const Item& item);
  void add_dot(uint32_t position, uint32_t origin);
  void wait(uint32_t symbol, uint32_t position, uint32_t origin);
  void complete(uint32_t rule, uint32_t origin);
  void drain();
  void ended(const Item& waiting, uint32_t origin);
  void ended_element(const Item& waiting, uint32_t origin);
  template <class Visit>
  void each_waiting(uint32_t row, uint32_t symbol, Visit visit) const;
  RowId intern();
  void predict(uint32_t symbol);
  void predict_all();
  void predict_elements(uint32_t list, uint32_t origin, uint32_t state);
  uint32_t state_number(MemberList::State state);

  const Grammar* grammar_;
  std::shared_ptr<MaskCache> masks_;
  RegexPool regexes_;
  std::vector<Item> items_;
  std::vector<Row> rows_;
  std::vector<Step> steps_;
  std::vector<uint32_t> table_;  // open addressing: row + 1, by kernel
  std::map<MemberList::State, uint32_t> state_numbers_;
  std::vector<const MemberList::State*> states_;  // by number; the first is empty
  size_t state_words_ = 0;
  std::vector<Track> tracks_;
  std::map<Track, uint32_t> track_numbers_;
  std::vector<std::pair<uint32_t, uint8_t>> texts_;  // the text without its last byte, and the byte; the first is empty
  std::unordered_map<uint64_t, uint32_t> text_numbers_;

  // Byte classes of rows within several terminals, by the terminals' classes.
  std::map<std::vector<const RegexPool::ByteClasses*>, Classes> common_classes_;
  std::map<std::array<uint64_t, 4>, Classes> bytes_apart_;  // of a row's next bytes, where each is a class

  // Work in progress on the row that is being computed.
  std::vector<Item> kernel_;
  uint64_t row_work_ = 0;
  std::vector<Item> predicted_;
  std::vector<uint32_t> open_symbols_;
  std::vector<Item> open_;  // what ended and whose waiting items have not been looked at
  bool may_end_ = false;
  bool undecided_ = false;
  std::vector<Item> seen_;  // open addressing
  std::vector<uint32_t> seen_stamps_;
  std::vector<uint32_t> symbol_stamps_;
  uint32_t stamp_ = 0;
  size_t seen_count_ = 0;
  std::vector<RegexId> expressions_;
  RegexPool::WorkCount work_;
};

}  // namespace cairn::grammar
