/// Turns normal forms into rules of a grammar.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/json_schema/normalizer.h"

namespace cairn::grammar {

/// Errors are given to the normaliser.
class GrammarWriter {
 public:
  static constexpr size_t kKeyClassesMax = 200;   ///< of an object's keys, by which schemas they meet
  static constexpr uint64_t kStatesMax = 20'000;  ///< of an array with counts
  static constexpr size_t kWitnessesMax = 4;      ///< conditions that some member or other must meet
  static constexpr int32_t kUniqueFuel = 20'000;  ///< derivatives to see that there are enough unique items

  GrammarWriter(GrammarBuilder& builder, Normalizer& normalizer, Whitespace whitespace, KeyOrder order);

  /// The symbol of the values that fit a goal; all rules that it needs are written.
  SymbolId write(GoalId goal);
  /// The members of objects that fit it. `plain` has the same schemas in a notation without escapes and quotes.
  SymbolId write_parameters(GoalId goal, const ParameterMarkup& markup, Normalizer& plain, GoalId plain_goal);

 private:
  struct Key {  ///< a class of keys that are no members' names
    RegexId keys{};
    GoalId goal = kAnyValue;
  };
  struct Fields {  ///< elements of a list of members
    std::vector<SymbolId> symbols{};
    std::vector<MemberList::Element> kinds{};
    void add(SymbolId symbol, MemberList::Element kind) {
      symbols.push_back(symbol);
      kinds.push_back(kind);
    }
  };

  SymbolId symbol(GoalId goal);
  void define(SymbolId rule, GoalId goal);
  RegexId scalars(const NormalForm& form);
  /// Strings alone, with their quotes in the notation of `text`, which the form is of.
  static RegexId strings(JsonText& text, const NormalForm& form);
  SymbolId fail(GoalId goal, Code code, std::string_view keyword, std::string message);

  // write_objects.cpp
  void add_object(SymbolId rule, GoalId goal, ObjectForm object);
  void add_plain_object(SymbolId rule, GoalId goal, const ObjectForm& object);
  void add_witnesses(SymbolId rule, GoalId goal, const ObjectForm& object, std::vector<KeyRule> groups, size_t next);
  void add_members(SymbolId rule, GoalId goal, const ObjectForm& object, std::span<const KeyRule> witnesses);
  static bool may_be_empty(const ObjectForm& object, const Fields& fields);
  std::optional<SymbolId> list_members(GoalId goal, const ObjectForm& object, const Fields& fields, uint32_t ordered,
                                       SymbolId separator);
  bool split_witness(SymbolId rule, GoalId goal, const ObjectForm& object);
  std::vector<Key> key_classes(const ObjectForm& object, RegexId all, GoalId goal);
  SymbolId member(RegexId quoted_key, GoalId goal);
  SymbolId named_member(const std::string& name, GoalId goal);
  std::optional<SymbolId> any_member(const ObjectForm& object, RegexId all, GoalId goal);

  // write_arrays.cpp
  void add_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  SymbolId item(GoalId goal);
  SymbolId after(SymbolId more, bool may_end);
  void add_plain_array(SymbolId rule, const ArrayForm& array);
  void add_counted_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  bool add_unique_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  std::optional<RegexId> unique_texts(GoalId goal);
  void add_brackets(SymbolId rule, SymbolId items, bool maybe_empty);

  // write_parameters.cpp
  void add_parameters(SymbolId rule, GoalId goal, const ObjectForm& object, const ParameterMarkup& markup,
                      Normalizer& plain, const ObjectForm& plain_object);
  SymbolId parameter(RegexId key, GoalId goal, ParameterKind kind, const ParameterMarkup& markup, Normalizer& plain,
                     const NormalForm* plain_form);
  RegexId certain_text(JsonText& plain, RegexId strings);

  void write_open();
  SymbolId rule(std::string_view name) { return builder_.rule(std::string(name)); }
  SymbolId nothing() { return builder_.terminal(kNoMatch); }

  GrammarBuilder& builder_;
  Normalizer& normalizer_;
  JsonText& text_;
  KeyOrder order_;
  RegexId space_{};
  SymbolId comma_{}, empty_{};
  std::map<GoalId, SymbolId> symbols_, items_;
  std::map<std::pair<std::string, GoalId>, SymbolId> members_;
  std::map<std::pair<RegexId, std::vector<std::pair<RegexId, GoalId>>>, std::optional<SymbolId>> others_;
  std::deque<std::pair<SymbolId, GoalId>> open_;
};

}  // namespace cairn::grammar
