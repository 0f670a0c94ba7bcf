// Functions that every template can call.
#include <algorithm>

#include "jinja/builtins/strftime.h"
#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {

Result<void> set_namespace_attribute(Budget& budget, Namespace& space, std::string_view name, Value value) {
  for (auto& [key, place] : space.attributes) {
    if (key != name) continue;
    place = std::move(value);
    return {};
  }
  if (space.attributes.size() == Namespace::kAttributesMax)
    return fail(Code::kTooLarge, "a namespace has more than {} attributes", Namespace::kAttributesMax);
  CAIRN_TRY_VOID(space.charge.take(budget, static_cast<int64_t>(2 * sizeof(Value) + name.size())));
  space.attributes.emplace_back(name, std::move(value));
  return {};
}

namespace {

Result<Value> range(Interpreter& interpreter, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("range", args, {"start", "stop", "step"}, 1));
  CAIRN_TRY(int64_t start, bound.integer(0, 0));
  CAIRN_TRY(int64_t stop, bound.integer(1, 0));
  CAIRN_TRY(const int64_t step, bound.integer(2, 1));
  if (!bound.has(1)) {
    stop = start;
    start = 0;
  }
  for (const int64_t bound_value : {start, stop, step})
    if (bound_value > Range::kBoundMax || bound_value < -Range::kBoundMax)
      return fail(Code::kTooLarge, "range(): {} is too large", bound_value);
  if (step == 0) return fail(Code::kInvalidArgument, "range() arg 3 must not be zero");
  const Int span = step > 0 ? Int{stop} - start : Int{start} - stop;
  if (span > 0 && (span - 1) / (step > 0 ? Int{step} : -Int{step}) >= Range::kLengthMax)
    return fail(Code::kTooLarge, "Range too big. The sandbox blocks ranges larger than {}.", Range::kLengthMax);
  CAIRN_TRY(auto object, make_object<Range>(interpreter.budget(), 0, start, stop, step));
  return Value(std::shared_ptr<Object>(std::move(object)));
}

// dict(mapping or pairs, **named), without the checks of a call.
Result<Value> make_dict(Budget& budget, std::string_view name, const Args& args) {
  DictBuilder dict(budget);
  if (args.positional.size() > 1)
    return fail(Code::kInvalidArgument, "{} expected at most 1 argument, got {}", name, args.positional.size());
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::kDict)) {
      CAIRN_TRY_VOID(dict.add_all(source.dict()));
    } else {
      CAIRN_TRY(const Value pairs, to_list(budget, source));
      for (const Value& pair : pairs.items()) {
        CAIRN_TRY(const Value parts, to_list(budget, pair));
        if (parts.items().size() != 2)
          return fail(Code::kInvalidArgument, "dictionary update sequence elements must have length 2");
        CAIRN_TRY_VOID(dict.add(parts.items()[0], parts.items()[1]));
      }
    }
  }
  for (const auto& [key, value] : args.named) CAIRN_TRY_VOID(dict.add(name_piece(key), value));
  return dict.finish();
}

Result<Value> dict(Interpreter& interpreter, const Args& args) { return make_dict(interpreter.budget(), "dict", args); }

Result<Value> make_namespace(Interpreter& interpreter, const Args& args) {
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value attributes, make_dict(budget, "namespace", args));
  CAIRN_TRY(auto space, make_object<Namespace>(budget, 0));
  CAIRN_TRY_VOID(interpreter.keep(space));
  for (const auto& [key, value] : attributes.dict().items()) {
    if (!key.is(Kind::kText)) return fail(Code::kInvalidArgument, "namespace attributes must be named by strings");
    CAIRN_TRY_VOID(set_namespace_attribute(budget, *space, key.text(), value));
  }
  return Value(std::shared_ptr<Object>(std::move(space)));
}

Result<Value> cycler(Interpreter& interpreter, const Args& args) {
  if (args.positional.empty() || !args.named.empty())
    return fail(Code::kInvalidArgument, "cycler(): at least one item has to be provided");
  CAIRN_TRY(Value items, make_list(interpreter.budget(), args.positional));
  const int32_t depth = items.depth();
  CAIRN_TRY(auto object, make_object<Cycler>(interpreter.budget(), depth, std::move(items)));
  return Value(std::shared_ptr<Object>(std::move(object)));
}

Result<Value> joiner(Interpreter& interpreter, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("joiner", args, {"sep"}));
  CAIRN_TRY(Value separator, bound.has(0) ? Result<Value>(bound[0]) : make_text(interpreter.budget(), ", "));
  const int32_t depth = separator.depth();
  CAIRN_TRY(auto object, make_object<Joiner>(interpreter.budget(), depth, std::move(separator)));
  return Value(std::shared_ptr<Object>(std::move(object)));
}

Result<Value> raise_exception(Interpreter& interpreter, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("raise_exception", args, {"message"}, 1));
  constexpr size_t kMessageMax = 10'000;
  CAIRN_TRY(const Value message, to_text(interpreter.budget(), bound[0]));
  return fail(Code::kInvalidArgument, "{}", message.text().substr(0, kMessageMax));
}

Result<Value> strftime_now(Interpreter& interpreter, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("strftime_now", args, {"format"}, 1));
  CAIRN_TRY(const Piece format, bound.piece(0, ""));
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(put_time(out, format, interpreter.now()));
  return make_text(std::move(out));
}

Result<Value> lipsum(Interpreter&, const Args&) {
  return fail(Code::kInvalidArgument, "lipsum() is not supported in chat templates");
}

struct GlobalEntry {
  std::string_view name;
  GlobalFunction function;
};

constexpr GlobalEntry kGlobals[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"lipsum", lipsum},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

GlobalFunction find_global(std::string_view name) {
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                   [&](const GlobalEntry& entry) { return entry.name == name; });
  return found == std::end(kGlobals) ? nullptr : found->function;
}

}  // namespace cairn::jinja
