/// Turns normal forms into rules of a grammar.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/json_schema/normalizer.h"

namespace cairn::grammar {

/// Errors are given to the normaliser.
class GrammarWriter {
 public:
  static constexpr size_t kKeyClassesMax = 200;   ///< of an object's keys, by which schemas they meet
  static constexpr uint64_t kStatesMax = 20'000;  ///< of an array or object with counts
  static constexpr size_t kFreeNamesMax = 4;      ///< names without a declared place that may come in any order
  static constexpr size_t kUniqueValuesMax = 12;  ///< values among which uniqueItems tells

  GrammarWriter(GrammarBuilder& builder, Normalizer& normalizer, Whitespace whitespace);

  /// The symbol of the values that fit a goal; all rules that it needs are written.
  SymbolId write(GoalId goal);
  /// The members of objects that fit it. `plain` has the same schemas in a notation without escapes and quotes.
  SymbolId write_parameters(GoalId goal, const ParameterMarkup& markup, Normalizer& plain, GoalId plain_goal);

 private:
  struct Key {  ///< a class of keys that are no members' names
    RegexId keys{};
    GoalId goal = kAnyValue;
  };
  struct Field {
    std::string name;
    SymbolId member{};
    bool required = false;
  };
  struct ObjectPlan {
    std::vector<Field> fields{};  ///< in the order in which they are written
    std::vector<Field> free{};    ///< in any order, after those and among the others
    std::vector<SymbolId> others{};
    std::vector<SymbolId> final{};  ///< members of which each must come, after all others
    uint64_t final_members = 0;     ///< how many members `final` writes
    uint64_t min = 0;
    std::optional<uint64_t> max{};
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
  bool split_witness(SymbolId rule, GoalId goal, const ObjectForm& object);
  std::vector<Key> key_classes(const ObjectForm& object, RegexId all, GoalId goal);
  SymbolId member(RegexId quoted_key, GoalId goal);
  SymbolId after(SymbolId more, bool may_end);
  SymbolId fields(const ObjectPlan& plan);
  SymbolId counted_fields(const ObjectPlan& plan, GoalId goal);
  SymbolId tail(const ObjectPlan& plan, size_t seen, std::map<size_t, SymbolId>& made);
  bool tail_may_end(const ObjectPlan& plan, size_t seen, bool final_too = true) const;

  // write_arrays.cpp
  void add_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  SymbolId item(GoalId goal);
  void add_plain_array(SymbolId rule, const ArrayForm& array);
  void add_counted_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  bool add_unique_array(SymbolId rule, GoalId goal, const ArrayForm& array);
  bool value_texts(GoalId goal, std::vector<std::string>& out);
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
  RegexId space_{};
  SymbolId comma_{}, empty_{};
  std::map<GoalId, SymbolId> symbols_;
  std::deque<std::pair<SymbolId, GoalId>> open_;
};

}  // namespace cairn::grammar
