#include "grammar/automaton.h"

#include <algorithm>
#include <bit>

#include "grammar/mask_cache.h"

namespace cairn::grammar {
namespace {

// Kinds of entries in the set of what was seen, beside items.
constexpr uint32_t kCompleted = 0xFFFF'FFF0;
constexpr uint32_t kExpanded = 0xFFFF'FFF1;

uint64_t hash_of(const Automaton::Item& item, uint64_t seed) {
  uint64_t hash = seed;
  for (const uint64_t half : {uint64_t{item.symbol} << 32 | item.position, uint64_t{item.origin} << 32 | item.extra}) {
    hash = (hash ^ half) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

size_t rank(const ByteSet& set, uint8_t byte) {
  const auto& words = set.words();
  size_t result = 0;
  for (size_t i = 0; i < byte / 64U; ++i) result += static_cast<size_t>(std::popcount(words[i]));
  return result + static_cast<size_t>(std::popcount(words[byte / 64U] & ((uint64_t{1} << (byte % 64)) - 1)));
}

size_t size_of(const ByteSet& set) {
  size_t result = 0;
  for (uint64_t word : set.words()) result += static_cast<size_t>(std::popcount(word));
  return result;
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
  // The first row has no kernel: all begins with it. No other row may have that name: see intern().
  row_work_ = 0;
  predict(grammar_->accept);
  predict_all();
  std::ranges::sort(predicted_);
  Row row;
  row.too_large = predicted_.size() > kRowItemsMax || row_work_ > kStepWorkMax;
  row.waiting =
      static_cast<uint32_t>(std::ranges::count_if(predicted_, [](const Item& item) { return item.symbol != kWithin; }));
  row.end = static_cast<uint32_t>(predicted_.size());
  row.may_end = grammar_->symbols[grammar_->accept].nullable;
  items_ = predicted_;
  rows_.push_back(row);
}

size_t Automaton::bytes_used() const {
  return items_.size() * sizeof(Item) + rows_.size() * sizeof(Row) + steps_.size() * sizeof(Step) +
         regexes_.memory_used();
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
  each_within(id, [&](const Item& item) { expressions_.push_back(RegexId{item.extra}); });
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
  row.steps = steps_.size();
  steps_.insert(steps_.end(), size_of(row.next), {kUnknown, 0});
}

const ByteSet& Automaton::next_bytes(RowId id) {
  look_ahead(index(id));
  return rows_[index(id)].next;
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
  const size_t slot = row.steps + rank(row.next, byte);
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
  row_work_ = 0;
}

bool Automaton::over_limits() const {
  return regexes_.full() || kernel_.size() > kKernelItemsMax || seen_count_ > kRowItemsMax || row_work_ > kStepWorkMax;
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

RowId Automaton::after_terminal(RowId row, size_t which) {
  begin_row();
  const Item item = items_[terminal_item(row, which)];
  add_dot(item.position + 1, resolve(item.origin, index(row)));
  drain();
  const RowId after = over_limits() ? kTooLargeRow : intern();
  work_.done += row_work_ * kItemWork;
  return after;
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
  bool undecided = false;
  each_within(id, [&](const Item item) {
    ++row_work_;
    if (undecided || row_work_ > kStepWorkMax) return;
    const RegexId rest = regexes_.derivative(RegexId{item.extra}, byte);
    undecided = rest == kUndecided;
    if (rest == kNoMatch || undecided) return;
    const uint32_t origin = resolve(item.origin, id);
    if (rest != kEmptyText) add({kWithin, item.position, origin, static_cast<uint32_t>(rest)});
    if (regexes_.matches_empty(rest)) add_dot(item.position + 1, origin);
  });
  if (undecided) return kTooLargeRow;
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
  if (!dot.repeat) return add_dot(waiting.position + 1, origin);
  const Symbol& repeat = grammar_->symbols[dot.rule];
  uint32_t count = waiting.extra + 1;
  if (count >= repeat.min) complete(dot.rule, origin);
  if (count >= repeat.max) return;
  if (repeat.max == kNoCount) count = std::min(count, repeat.min);  // more make no difference
  add({dot.symbol, waiting.position, origin, count});
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
    const Symbol& symbol = grammar_->symbols[open_symbols_.back()];
    open_symbols_.pop_back();
    ++row_work_;
    if (predicted_.size() > kRowItemsMax || row_work_ > kStepWorkMax) continue;
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
    if (row.may_end == may_end_ && std::ranges::equal(kernel_, std::span(items_).subspan(row.begin, row.kernel))) {
      row_work_ += row.predict_work;
      return row_work_ > kStepWorkMax ? kTooLargeRow : RowId{table_[slot] - 1};
    }
  }
  Row row;
  row.begin = items_.size();
  row.kernel = static_cast<uint32_t>(kernel_.size());
  row.may_end = may_end_;
  predicted_.clear();
  open_symbols_.clear();
  const uint64_t before = row_work_;
  for (const Item& item : kernel_) {
    row.depth = std::max(row.depth, rows_[item.origin].depth + 1);
    if (item.symbol == kWithin) continue;
    ++row.kernel_waiting;
    predict(item.symbol);
  }
  if (row.depth > kRowDepthMax) return kTooLargeRow;
  predict_all();
  if (predicted_.size() + kernel_.size() > kRowItemsMax || row_work_ > kStepWorkMax) return kTooLargeRow;
  row.predict_work = row_work_ - before;
  std::ranges::sort(predicted_);
  row.waiting =
      static_cast<uint32_t>(std::ranges::count_if(predicted_, [](const Item& item) { return item.symbol != kWithin; }));
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
      const Row& other = rows_[entry - 1];
      uint64_t name = other.may_end ? 1 : 2;
      for (size_t i = 0; i < other.kernel; ++i) name = hash_of(items_[other.begin + i], name);
      size_t free = name & (table_.size() - 1);
      while (table_[free] != 0) free = (free + 1) & (table_.size() - 1);
      table_[free] = entry;
    }
  }
  return RowId{id};
}

}  // namespace cairn::grammar
