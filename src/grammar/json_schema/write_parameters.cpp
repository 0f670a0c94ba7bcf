// Rules for objects whose members have markup around them.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "grammar/json_schema/writer.h"

namespace cairn::grammar {

SymbolId GrammarWriter::write_parameters(GoalId goal, const ParameterMarkup& markup, Normalizer& plain,
                                         GoalId plain_goal) {
  const SymbolId start = rule("parameters");
  const std::vector<ObjectForm> objects = normalizer_.form(goal).objects;
  const std::vector<ObjectForm> plain_objects = plain.form(plain_goal).objects;
  if (objects.empty()) return fail(goal, Code::kInvalidArgument, "type", "no object fits the schema");
  if (objects.size() != plain_objects.size())
    return fail(goal, Code::kUnsupported, "", "alternatives of arguments that strings tell apart");
  for (size_t i = 0; i < objects.size(); ++i) add_parameters(start, goal, objects[i], markup, plain, plain_objects[i]);
  write_open();
  return start;
}

void GrammarWriter::add_parameters(SymbolId rule, GoalId goal, const ObjectForm& object, const ParameterMarkup& markup,
                                   Normalizer& plain, const ObjectForm& plain_object) {
  using enum Member::Presence;
  if (!object.witnesses.empty()) {
    fail(goal, Code::kUnsupported, "not", "a condition that some member or other must break, in a call's arguments");
    return;
  }
  Fields fields;
  std::vector<RegexId> names;
  for (const Member& one : object.members) {
    names.push_back(text_.literal(one.name));
    if (one.presence == kAbsent || (one.presence == kOptional && !one.declared && one.goal == kAnyValue)) continue;
    const GoalId value = normalizer_.member_goal(object, one);
    const auto same = std::ranges::find(plain_object.members, one.name, &Member::name);
    if (normalizer_.empty(value) || same == plain_object.members.end()) {
      if (one.presence == kRequired) return;
      continue;
    }
    const auto kind = markup.kinds.find(one.name);
    const NormalForm form = plain.form(plain.member_goal(plain_object, *same));
    fields.add(parameter(plain.text().key_of(one.name), value,
                         kind == markup.kinds.end() ? markup.other_kind : kind->second, markup, plain, &form),
               {.required = one.presence == kRequired});
  }
  const auto ordered = order_ == KeyOrder::kSchema ? static_cast<uint32_t>(fields.symbols.size()) : 0;
  const RegexId all = text_.except(text_.canonical_string(), text_.pool().any_of(names));
  const NormalForm any = plain.any_form();
  std::vector<SymbolId> others;
  for (const Key& key : key_classes(object, all, kAnyValue)) {
    // The keys are words here (JsonText::key), and a word is spelled as its text.
    others.push_back(parameter(text_.either(plain.text().key(key.keys), markup.more_keys), key.goal, markup.other_kind,
                               markup, plain, key.goal == kAnyValue ? &any : nullptr));
  }
  if (!others.empty()) fields.add(builder_.any_of(others), {.repeats = true});
  const std::optional<SymbolId> members =
      list_members(goal, object, fields, ordered, builder_.terminal(markup.between));
  if (!members.has_value()) return;
  builder_.add(rule, {*members});
  if (may_be_empty(object, fields)) builder_.add(rule, {});
}

/// The strings that stand as they are and that no reader takes for a value of another type.
RegexId GrammarWriter::certain_text(JsonText& plain, RegexId strings) {
  RegexPool& pool = plain.pool();
  const RegexId space = pool.repeat(pool.bytes(ByteSet::of(" \t\r\n")), 0, std::nullopt);
  const RegexId word =
      pool.any_of(std::initializer_list<RegexId>{pool.literal("true"), pool.literal("false"), pool.literal("null")});
  const RegexId letter = pool.bytes(ByteSet::range('a', 'z') | ByteSet::range('A', 'Z'));
  const RegexId any = pool.repeat(pool.bytes(ByteSet::all()), 0, std::nullopt);
  return plain.except(plain.both(strings, plain.then(letter, any)), plain.then(word, space));
}

SymbolId GrammarWriter::parameter(RegexId key, GoalId goal, ParameterKind kind, const ParameterMarkup& markup,
                                  Normalizer& plain, const NormalForm* plain_form) {
  const SymbolId self = rule("parameter");
  JsonText& text = plain.text();
  const RegexId open = text_.then(markup.open, key);
  const auto add_text = [&](RegexId strings) {
    if (markup.text_key_close == kNoMatch) return;
    const RegexId key_close = text.then(open, markup.text_key_close);
    builder_.add(self,
                 {builder_.terminal(key_close), builder_.terminal(strings), builder_.terminal(markup.text_close)});
    if (markup.wrap_open == kEmptyText) return;
    builder_.add(self, {builder_.terminal(text.then(key_close, markup.wrap_open)), builder_.terminal(strings),
                        builder_.terminal(text.then(markup.wrap_close, markup.text_close))});
  };
  const RegexId strings = plain_form == nullptr ? kNoMatch : GrammarWriter::strings(text, *plain_form);
  switch (kind) {
    case ParameterKind::kText:
    case ParameterKind::kMarked:
      add_text(strings);
      break;
    case ParameterKind::kTextOrNull: {
      const RegexId null = text.pool().literal("null");
      add_text(text.except(strings, null));
      if (plain_form != nullptr && plain_form->null) add_text(null);
      break;
    }
    case ParameterKind::kEither:
      add_text(certain_text(text, strings));
      break;
    case ParameterKind::kAnyText:
      add_text(text.quoted(text.any_string()));
      break;
    case ParameterKind::kValue:
      break;
  }
  const bool value = kind == ParameterKind::kValue || kind == ParameterKind::kEither ||
                     kind == ParameterKind::kMarked || markup.text_key_close == kNoMatch;
  if (value)
    builder_.add(
        self, {builder_.terminal(text_.then(open, markup.key_close)), symbol(goal), builder_.terminal(markup.close)});
  return self;
}

}  // namespace cairn::grammar
