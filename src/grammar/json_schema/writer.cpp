#include "grammar/json_schema/writer.h"

#include <initializer_list>
#include <utility>

namespace cairn::grammar {

GrammarWriter::GrammarWriter(GrammarBuilder& builder, Normalizer& normalizer, Whitespace whitespace, KeyOrder order)
    : builder_(builder),
      normalizer_(normalizer),
      text_(normalizer.text()),
      order_(order),
      space_(text_.whitespace(whitespace)) {
  comma_ = builder.terminal(text_.then(space_, text_.pool().literal(",")));
  empty_ = builder.terminal(kEmptyText);
}

SymbolId GrammarWriter::fail(GoalId goal, Code code, std::string_view keyword, std::string message) {
  normalizer_.fail(code, normalizer_.place_of(goal), keyword, std::move(message));
  return nothing();
}

SymbolId GrammarWriter::symbol(GoalId goal) {
  const auto known = symbols_.find(goal);
  if (known != symbols_.end()) return known->second;
  if (normalizer_.error().has_value()) return nothing();
  // Scalars alone need no rule.
  const NormalForm& form = normalizer_.form(goal);
  SymbolId made{};
  if (form.arrays.empty() && form.objects.empty()) {
    made = builder_.terminal(scalars(form));
  } else {
    made = rule(goal == kAnyValue ? "value" : normalizer_.place_of(goal).pointer);
    open_.emplace_back(made, goal);
  }
  symbols_.emplace(goal, made);
  return made;
}

SymbolId GrammarWriter::write(GoalId goal) {
  const SymbolId start = symbol(goal);
  write_open();
  return start;
}

void GrammarWriter::write_open() {
  while (!open_.empty() && !normalizer_.error().has_value()) {
    const auto [rule, next] = open_.front();
    open_.pop_front();
    define(rule, next);
  }
}

RegexId GrammarWriter::scalars(const NormalForm& form) {
  std::vector<RegexId> choices;
  RegexPool& pool = text_.pool();
  if (form.null) choices.push_back(text_.words(text_.notation().null));
  if (form.no) choices.push_back(text_.words(text_.notation().no));
  if (form.yes) choices.push_back(text_.words(text_.notation().yes));
  if (form.number.values.has_value()) {
    std::vector<std::string> numbers = *form.number.values;
    for (const std::string& value : *form.number.values) {
      const bool whole = value.find_first_of(".e") == std::string::npos && !form.number.whole;
      if (whole) numbers.push_back(value + ".0");
    }
    choices.push_back(pool.texts({numbers.begin(), numbers.end()}));
  } else if (form.number.whole) {
    choices.push_back(text_.both(form.number.text, normalizer_.numbers().written_integers()));
  } else {
    choices.push_back(form.number.text);
  }
  choices.push_back(strings(text_, form));
  return pool.any_of(choices);
}

RegexId GrammarWriter::strings(JsonText& text, const NormalForm& form) {
  return form.string.values.has_value() ? text.strings_of(*form.string.values) : text.quoted(form.string.text);
}

void GrammarWriter::define(SymbolId rule, GoalId goal) {
  const NormalForm form = normalizer_.form(goal);
  builder_.add(rule, {builder_.terminal(scalars(form))});
  for (const ArrayForm& array : form.arrays) add_array(rule, goal, array);
  for (const ObjectForm& object : form.objects) add_object(rule, goal, object);
}

}  // namespace cairn::grammar
