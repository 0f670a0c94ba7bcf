#include "grammar/automaton.h"

#include <algorithm>
#include <optional>
#include <string>

#include "grammar/masks/mask_cache.h"

namespace cairn::grammar {
namespace {

// Kinds of entries in the set of what was seen, beside items.
constexpr uint32_t kCompleted = 0xFFFF'FFF0;
constexpr uint32_t kExpanded = 0xFFFF'FFF1;

constexpr size_t kCommonClassesMax = 4;  // terminals of a row whose classes of bytes are joined

uint64_t hash_of(const Automaton::Item& item, uint64_t seed) {
  uint64_t hash = seed;
  for (const uint64_t half : {uint64_t{item.symbol} << 32 | item.position, uint64_t{item.origin} << 32 | item.extra}) {
    hash = (hash ^ half) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

Automaton::Automaton(const Grammar& grammar) : grammar_(&grammar) { clear(); }

void Automaton::clear() {
  masks_.reset();
  regexes_ = grammar_->regexes.copy();
  begin_work();
  items_.clear();
  rows_.clear();
  steps_.clear();
  table_.assign(256, 0);
  seen_.assign(64, {});
  seen_stamps_.assign(64, 0);
  symbol_stamps_.assign(grammar_->symbols.size(), 0);
  stamp_ = 1;
  seen_count_ = 0;
  kernel_.clear();
  predicted_.clear();
  states_.clear();
  state_numbers_.clear();
  state_words_ = 0;
  common_classes_.clear();
  bytes_apart_.clear();
  state_number({});
  tracks_.clear();
  track_numbers_.clear();
  texts_.assign(1, {});
  text_numbers_.clear();
  // The first row has no kernel: all begins with it. No other row may have that name: see intern().
  row_work_ = 0;
  predict(grammar_->accept);
  predict_all();
  std::ranges::sort(predicted_);
  Row row;
  row.too_large = predicted_.size() > kRowItemsMax || row_work_ > kStepWorkMax;
  row.waiting =
      static_cast<uint32_t>(std::ranges::count_if(predicted_, [](const Item& item) { return item.symbol < kTracked; }));
  row.end = static_cast<uint32_t>(predicted_.size());
  row.may_end = grammar_->symbols[grammar_->accept].nullable;
  items_ = predicted_;
  rows_.push_back(row);
}

size_t Automaton::bytes_used() const {
  return items_.size() * sizeof(Item) + rows_.size() * sizeof(Row) + steps_.size() * sizeof(Step) +
         states_.size() * 128 + state_words_ * sizeof(uint64_t) + tracks_.size() * 96 + texts_.size() * 64 +
         (common_classes_.size() + bytes_apart_.size()) * 2 * sizeof(Classes) + regexes_.memory_used();
}

template <class Visit>
void Automaton::each_within(uint32_t id, Visit visit) const {
  const Row row = rows_[id];
  for (size_t i = row.begin + row.kernel_waiting; i < row.begin + row.kernel; ++i) visit(items_[i]);
  for (size_t i = row.begin + row.kernel + row.waiting; i < row.begin + row.end; ++i) visit(items_[i]);
}

void Automaton::look_ahead(uint32_t id) {
  Row& row = rows_[id];
  if (row.looked_ahead) return;
  row.looked_ahead = true;
  expressions_.clear();
  bool tracked = false;
  each_within(id, [&](const Item& item) {
    expressions_.push_back(expression(item));
    tracked = tracked || item.symbol == kTracked;
  });
  std::ranges::sort(expressions_);
  expressions_.erase(std::ranges::unique(expressions_).begin(), expressions_.end());
  for (RegexId expression : expressions_) {
    if (row.too_large) break;
    row.next = row.next | regexes_.first_bytes(expression);
    row.look_work += regexes_.first_work(expression);
    row.too_large = regexes_.full() || row.look_work > kMaskWorkMax;
  }
  // What may follow is then not known.
  if (row.too_large) row.next = ByteSet::all();
  find_classes(row, tracked);
}

// The bytes that none of the terminals tells apart lead to the same row. A list of distinct texts tells all apart.
void Automaton::find_classes(Row& row, bool tracked) {
  row.steps = steps_.size();
  if (row.too_large || row.next.empty()) return;
  std::vector<const RegexPool::ByteClasses*> parts;
  for (RegexId expression : expressions_) parts.push_back(regexes_.state(expression).classes);
  std::ranges::sort(parts);
  parts.erase(std::ranges::unique(parts).begin(), parts.end());
  size_t count = 0;
  if (!tracked && parts.size() == 1) {
    row.classes = parts[0]->of.data();
    count = parts[0]->representatives.size();
  } else {
    const bool apart = tracked || parts.size() > kCommonClassesMax;
    Classes& classes = apart ? bytes_apart_[row.next.words()] : common_classes_[parts];
    if (classes.count == 0 && apart)
      row.next.each([&](uint8_t byte) { classes.of[byte] = static_cast<uint8_t>(classes.count++); });
    if (classes.count == 0) classes = common_classes(parts);
    row.classes = classes.of.data();
    count = classes.count;
  }
  steps_.insert(steps_.end(), count, {kUnknown, 0});
}

Automaton::Classes Automaton::common_classes(std::span<const RegexPool::ByteClasses* const> parts) {
  Classes result{.count = 1};
  std::vector<uint16_t> numbers;  // of a class so far and one of the next part, + 1
  for (const RegexPool::ByteClasses* part : parts) {
    const size_t stride = part->representatives.size();
    numbers.assign(result.count * stride, 0);
    result.count = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      uint16_t& number = numbers[result.of[byte] * stride + part->of[byte]];
      if (number == 0) number = static_cast<uint16_t>(++result.count);
      result.of[byte] = static_cast<uint8_t>(number - 1);
    }
  }
  return result;
}

const ByteSet& Automaton::next_bytes(RowId id) {
  look_ahead(index(id));
  return rows_[index(id)].next;
}

std::optional<RowId> Automaton::known_step(RowId id, uint8_t byte) const {
  const Row& row = rows_[index(id)];
  if (!row.looked_ahead) return std::nullopt;
  if (row.too_large) return kTooLargeRow;
  if (!row.next.contains(byte)) return kNoRow;
  const uint32_t next = steps_[row.steps + row.classes[byte]].row;
  return next == kUnknown ? std::nullopt : std::optional(RowId{next});
}

bool Automaton::has_mask(const WalkedVocabulary& vocabulary, RowId row) const {
  return masks_ != nullptr && masks_->vocabulary == vocabulary.id() && masks_->has(row);
}

RowId Automaton::step(RowId id, uint8_t byte) {
  look_ahead(index(id));
  Row& row = rows_[index(id)];
  if (row.work_counted != work_.number) {
    row.work_counted = work_.number;
    work_.done += row.look_work;
  }
  if (row.too_large) return kTooLargeRow;
  if (!row.next.contains(byte)) return kNoRow;
  const size_t slot = row.steps + row.classes[byte];
  if (steps_[slot].row == kUnknown) {
    const uint32_t next = index(compute(index(id), byte));
    steps_[slot] = {next, static_cast<uint32_t>(row_work_ * kItemWork)};
  }
  work_.done += steps_[slot].work;
  return RowId{steps_[slot].row};
}

void Automaton::begin_row() {
  ++stamp_;
  seen_count_ = 0;
  kernel_.clear();
  open_.clear();
  may_end_ = false;
  undecided_ = false;
  row_work_ = 0;
}

bool Automaton::over_limits() const {
  return undecided_ || regexes_.full() || kernel_.size() > kKernelItemsMax || seen_count_ > kRowItemsMax ||
         row_work_ > kStepWorkMax;
}

size_t Automaton::terminals(RowId id) const {
  const Row& row = rows_[index(id)];
  return row.kernel - row.kernel_waiting + row.end - row.kernel - row.waiting;
}

size_t Automaton::terminal_item(RowId id, size_t which) const {
  const Row& row = rows_[index(id)];
  const size_t of_kernel = row.kernel - row.kernel_waiting;
  return row.begin + (which < of_kernel ? row.kernel_waiting + which : row.kernel + row.waiting + which - of_kernel);
}

RowId Automaton::after_terminal(RowId row, size_t which, std::string_view bytes) {
  begin_row();
  const Item item = items_[terminal_item(row, which)];
  const uint32_t origin = resolve(item.origin, index(row));
  if (item.symbol == kTracked) {
    Track track = tracks_[item.extra];
    for (const char byte : bytes) track.text = text_number(track.text, static_cast<uint8_t>(byte));
    ended_text(item.position, origin, track);
  } else {
    add_dot(item.position + 1, origin);
  }
  drain();
  const RowId after = over_limits() ? kTooLargeRow : intern();
  work_.done += row_work_ * kItemWork;
  return after;
}

RowId Automaton::row_of_terminals(RowId row, std::span<const size_t> which) {
  begin_row();
  for (const size_t each : which) {
    Item item = items_[terminal_item(row, each)];
    item.origin = resolve(item.origin, index(row));
    add(item);
    ++row_work_;
  }
  const RowId made = over_limits() ? kTooLargeRow : intern();
  work_.done += row_work_ * kItemWork;
  return made;
}

MaskCache& Automaton::masks_for(const WalkedVocabulary& vocabulary) {
  if (masks_ == nullptr || masks_->vocabulary != vocabulary.id()) {
    masks_ = std::make_shared<MaskCache>();
    masks_->vocabulary = vocabulary.id();
  }
  return *masks_;
}

RowId Automaton::compute(uint32_t id, uint8_t byte) {
  begin_row();
  each_within(id, [&](const Item item) {
    ++row_work_;
    if (undecided_ || row_work_ > kStepWorkMax) return;
    const RegexId rest = regexes_.derivative(expression(item), byte);
    undecided_ = rest == kUndecided;
    if (rest == kNoMatch || undecided_) return;
    const uint32_t origin = resolve(item.origin, id);
    if (item.symbol == kTracked) {
      Track track = tracks_[item.extra];
      track = {rest, track.seen, text_number(track.text, byte), track.count};
      if (rest != kEmptyText) add({kTracked, item.position, origin, track_number(track)});
      if (regexes_.matches_empty(rest)) ended_text(item.position, origin, track);
      return;
    }
    if (rest != kEmptyText) add({kWithin, item.position, origin, static_cast<uint32_t>(rest)});
    if (regexes_.matches_empty(rest)) add_dot(item.position + 1, origin);
  });
  if (undecided_) return kTooLargeRow;
  drain();
  return over_limits() ? kTooLargeRow : intern();
}

// Whether this is the first time, since the stamp changed.
bool Automaton::remember(const Item& item) {
  if (seen_count_ * 2 >= seen_.size()) {
    std::vector<Item> old = std::move(seen_);
    std::vector<uint32_t> stamps = std::move(seen_stamps_);
    seen_.assign(old.size() * 2, {});
    seen_stamps_.assign(old.size() * 2, 0);
    for (size_t i = 0; i < old.size(); ++i) {
      if (stamps[i] != stamp_) continue;
      size_t slot = hash_of(old[i], 0) & (seen_.size() - 1);
      while (seen_stamps_[slot] == stamp_) slot = (slot + 1) & (seen_.size() - 1);
      seen_[slot] = old[i];
      seen_stamps_[slot] = stamp_;
    }
  }
  size_t slot = hash_of(item, 0) & (seen_.size() - 1);
  for (; seen_stamps_[slot] == stamp_; slot = (slot + 1) & (seen_.size() - 1)) {
    if (seen_[slot] == item) return false;
  }
  seen_[slot] = item;
  seen_stamps_[slot] = stamp_;
  ++seen_count_;
  return true;
}

void Automaton::add(const Item& item) {
  if (remember(item)) kernel_.push_back(item);
}

// Adds the item whose dot is at `position`, and those behind symbols that may be empty.
void Automaton::add_dot(uint32_t position, uint32_t origin) {
  for (;; ++position) {
    ++row_work_;
    const Position& dot = grammar_->positions[position];
    if (dot.symbol == kEnd) return complete(dot.rule, origin);
    const Symbol& symbol = grammar_->symbols[dot.symbol];
    if (symbol.kind == SymbolKind::kTerminal) {
      add({kWithin, position, origin, static_cast<uint32_t>(symbol.regex)});
    } else {
      wait(dot.symbol, position, origin);
    }
    if (!symbol.nullable) return;
  }
}

// Adds an item that waits for `symbol`. Where nothing follows in its rule, the items that wait for the rule take its
// place, and so on: when `symbol` ends, they go on.
void Automaton::wait(uint32_t symbol, uint32_t position, uint32_t origin) {
  if (!grammar_->positions[position].last) return add({symbol, position, origin, 0});
  std::vector<std::pair<uint32_t, uint32_t>> rules{{grammar_->positions[position].rule, origin}};
  while (!rules.empty()) {
    const auto [rule, row] = rules.back();
    rules.pop_back();
    if (seen_count_ > kRowItemsMax || row_work_ > kStepWorkMax) return;
    if (!remember({kExpanded, symbol, rule, row})) continue;
    each_waiting(row, rule, [&](const Item& outer) {
      ++row_work_;
      const Position& dot = grammar_->positions[outer.position];
      const uint32_t from = resolve(outer.origin, row);
      if (dot.last && dot.rule != grammar_->accept) {
        rules.emplace_back(dot.rule, from);
      } else {
        add({symbol, outer.position, from, outer.extra});
      }
    });
  }
}

void Automaton::complete(uint32_t rule, uint32_t origin) {
  if (rule == grammar_->accept) {
    may_end_ = true;
  } else if (remember({kCompleted, rule, origin, 0})) {
    open_.push_back({0, rule, origin, 0});
  }
}

void Automaton::drain() {
  while (!open_.empty() && seen_count_ <= kRowItemsMax && row_work_ <= kStepWorkMax) {
    const Item done = open_.back();
    open_.pop_back();
    each_waiting(done.origin, done.position, [&](const Item& waiting) {
      ++row_work_;
      ended(waiting, resolve(waiting.origin, done.origin));
    });
  }
}

// What an item waits for has ended.
void Automaton::ended(const Item& waiting, uint32_t origin) {
  const Position& dot = grammar_->positions[waiting.position];
  if (dot.role == Position::Role::kAlternative) return add_dot(waiting.position + 1, origin);
  if (dot.role == Position::Role::kSeparator) return add({kBetween, waiting.position, origin, waiting.extra});
  if (dot.role == Position::Role::kElement) return ended_element(waiting, origin);
  if (dot.role == Position::Role::kTextSeparator)
    return begin_text(waiting.position - 1, origin, tracks_[waiting.extra]);
  const Symbol& repeat = grammar_->symbols[dot.rule];
  uint32_t count = waiting.extra + 1;
  if (count >= repeat.min) complete(dot.rule, origin);
  if (count >= repeat.max) return;
  if (repeat.max == kNoCount) count = std::min(count, repeat.min);  // more make no difference
  add({dot.symbol, waiting.position, origin, count});
}

void Automaton::ended_element(const Item& waiting, uint32_t origin) {
  const uint32_t rule = grammar_->positions[waiting.position].rule;
  const Symbol& symbol = grammar_->symbols[rule];
  const MemberList& list = grammar_->lists[symbol.inner];
  const MemberList::State after = list.after(*states_[waiting.extra], waiting.position - symbol.first);
  if (list.complete(after)) complete(rule, origin);
  bool more = false;
  list.each_next(after, [&](uint32_t) { more = true; });
  if (!more) return;
  const uint32_t position = symbol.first + symbol.count;
  const uint32_t separator = grammar_->positions[position].symbol;
  add({separator, position, origin, state_number(after)});
  if (grammar_->symbols[separator].nullable) add({kBetween, position, origin, state_number(after)});
}

uint32_t Automaton::track_number(const Track& track) {
  const auto [place, added] = track_numbers_.try_emplace(track, static_cast<uint32_t>(tracks_.size()));
  if (added) tracks_.push_back(track);
  return place->second;
}

uint32_t Automaton::text_number(uint32_t begin, uint8_t byte) {
  const auto [place, added] =
      text_numbers_.try_emplace(uint64_t{begin} << 8 | byte, static_cast<uint32_t>(texts_.size()));
  if (added) texts_.emplace_back(begin, byte);
  return place->second;
}

// Texts that have been are no texts any more.
void Automaton::begin_text(uint32_t position, uint32_t origin, const Track& track) {
  const RegexId all = grammar_->symbols[grammar_->positions[position].rule].regex;
  const RegexId conditions[] = {all, regexes_.complement(track.seen)};
  const RegexId rest = track.seen == kNoMatch ? all : regexes_.all_of(conditions);
  add({kTracked, position, origin, track_number({rest, track.seen, 0, track.count})});
}

void Automaton::ended_text(uint32_t position, uint32_t origin, const Track& track) {
  const uint32_t rule = grammar_->positions[position].rule;
  const Symbol& list = grammar_->symbols[rule];
  std::string text;
  for (uint32_t i = track.text; i != 0; i = texts_[i].first) text += static_cast<char>(texts_[i].second);
  std::ranges::reverse(text);
  const RegexId both[] = {track.seen, regexes_.literal(text)};
  Track next{kNoMatch, regexes_.any_of(both), 0, track.count + 1};
  if (next.count >= list.min) complete(rule, origin);
  if (next.count >= list.max) return;
  if (list.max == kNoCount) next.count = std::min(next.count, list.min);
  const RegexId conditions[] = {list.regex, regexes_.complement(next.seen)};
  const std::optional<bool> nothing = regexes_.matches_nothing(regexes_.all_of(conditions), kEmptinessFuel);
  undecided_ = undecided_ || !nothing.has_value();
  row_work_ += text.size();
  if (nothing == false) {
    add({grammar_->positions[position + 1].symbol, position + 1, origin, track_number(next)});
  }
}

uint32_t Automaton::state_number(MemberList::State state) {
  const auto [place, added] = state_numbers_.try_emplace(std::move(state), static_cast<uint32_t>(states_.size()));
  if (added) {
    states_.push_back(&place->first);
    state_words_ += place->first.size();
  }
  return place->second;
}

void Automaton::predict_elements(uint32_t list, uint32_t origin, uint32_t state) {
  const Symbol& symbol = grammar_->symbols[list];
  grammar_->lists[symbol.inner].each_next(*states_[state], [&](uint32_t element) {
    const uint32_t position = symbol.first + element;
    ++row_work_;
    predicted_.push_back({grammar_->positions[position].symbol, position, origin, state});
    predict(grammar_->positions[position].symbol);
  });
}

template <class Visit>
void Automaton::each_waiting(uint32_t id, uint32_t symbol, Visit visit) const {
  const Row& row = rows_[id];
  const auto look = [&](size_t first, size_t last) {
    const auto begin = items_.begin() + static_cast<ptrdiff_t>(row.begin + first);
    const auto end = items_.begin() + static_cast<ptrdiff_t>(row.begin + last);
    for (auto item = std::lower_bound(begin, end, Item{symbol, 0, 0, 0}); item != end && item->symbol == symbol;
         ++item) {
      visit(*item);
    }
  };
  look(0, row.kernel_waiting);
  look(row.kernel, row.kernel + row.waiting);
}

void Automaton::predict(uint32_t symbol) {
  if (symbol_stamps_[symbol] == stamp_) return;
  symbol_stamps_[symbol] = stamp_;
  open_symbols_.push_back(symbol);
}

// Adds the items at the beginnings of all rules that may begin at this row.
void Automaton::predict_all() {
  while (!open_symbols_.empty()) {
    const uint32_t id = open_symbols_.back();
    const Symbol& symbol = grammar_->symbols[id];
    open_symbols_.pop_back();
    ++row_work_;
    if (predicted_.size() > kRowItemsMax || row_work_ > kStepWorkMax) continue;
    if (symbol.kind == SymbolKind::kMembers) {
      predict_elements(id, kSelf, 0);
      continue;
    }
    if (symbol.kind == SymbolKind::kDistinct) {
      predicted_.push_back({kTracked, symbol.first, kSelf, track_number({symbol.regex, kNoMatch, 0, 0})});
      continue;
    }
    if (symbol.kind == SymbolKind::kRepeat) {
      predicted_.push_back({symbol.inner, symbol.first, kSelf, 0});
      predict(symbol.inner);
      continue;
    }
    for (uint32_t i = 0; i < symbol.count; ++i) {
      for (uint32_t position = grammar_->starts[symbol.first + i];; ++position) {
        ++row_work_;
        const uint32_t next = grammar_->positions[position].symbol;
        if (next == kEnd) break;
        if (grammar_->symbols[next].kind == SymbolKind::kTerminal) {
          predicted_.push_back({kWithin, position, kSelf, static_cast<uint32_t>(grammar_->symbols[next].regex)});
        } else {
          predicted_.push_back({next, position, kSelf, 0});
          predict(next);
        }
        if (!grammar_->symbols[next].nullable) break;
      }
    }
  }
}

// The row with this kernel; makes it if there is none.
RowId Automaton::intern() {
  if (kernel_.empty() && !may_end_) return kNoRow;
  row_work_ += kernel_.size();
  std::ranges::sort(kernel_);
  uint64_t hash = may_end_ ? 1 : 2;
  for (const Item& item : kernel_) hash = hash_of(item, hash);
  size_t slot = hash & (table_.size() - 1);
  for (; table_[slot] != 0; slot = (slot + 1) & (table_.size() - 1)) {
    const Row& row = rows_[table_[slot] - 1];
    if (row.hash == hash && row.may_end == may_end_ &&
        std::ranges::equal(kernel_, std::span(items_).subspan(row.begin, row.kernel))) {
      row_work_ += row.predict_work;
      return row_work_ > kStepWorkMax ? kTooLargeRow : RowId{table_[slot] - 1};
    }
  }
  Row row;
  row.begin = items_.size();
  row.kernel = static_cast<uint32_t>(kernel_.size());
  row.may_end = may_end_;
  row.hash = hash;
  predicted_.clear();
  open_symbols_.clear();
  const uint64_t before = row_work_;
  for (const Item& item : kernel_) {
    row.depth = std::max(row.depth, rows_[item.origin].depth + 1);
    if (item.symbol >= kTracked) continue;
    ++row.kernel_waiting;
    if (item.symbol == kBetween) {
      predict_elements(grammar_->positions[item.position].rule, item.origin, item.extra);
    } else {
      predict(item.symbol);
    }
  }
  if (row.depth > kRowDepthMax) return kTooLargeRow;
  predict_all();
  if (predicted_.size() + kernel_.size() > kRowItemsMax || row_work_ > kStepWorkMax) return kTooLargeRow;
  row.predict_work = row_work_ - before;
  std::ranges::sort(predicted_);
  row.waiting =
      static_cast<uint32_t>(std::ranges::count_if(predicted_, [](const Item& item) { return item.symbol < kTracked; }));
  row.end = static_cast<uint32_t>(kernel_.size() + predicted_.size());
  items_.insert(items_.end(), kernel_.begin(), kernel_.end());
  items_.insert(items_.end(), predicted_.begin(), predicted_.end());
  const auto id = static_cast<uint32_t>(rows_.size());
  rows_.push_back(row);
  table_[slot] = id + 1;
  if (rows_.size() * 2 > table_.size()) {
    std::vector<uint32_t> old(table_.size() * 2);
    std::swap(old, table_);
    for (uint32_t entry : old) {
      if (entry == 0) continue;
      size_t free = rows_[entry - 1].hash & (table_.size() - 1);
      while (table_[free] != 0) free = (free + 1) & (table_.size() - 1);
      table_[free] = entry;
    }
  }
  return RowId{id};
}

}  // namespace cairn::grammar
