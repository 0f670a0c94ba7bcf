#include "jinja/jinja.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/json.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/parse/parser.h"

namespace cairn::jinja {

struct JinjaTemplate::Program {
  jinja::ParsedTemplate parsed;
};

namespace {

using nlohmann::ordered_json;

/// A number of more than 64 bits: an integer as long as 128 hold it.
jinja::Value number_in_text(const ordered_json& json) {
  constexpr size_t kDigitsMax = 38;
  const std::string text = number_text(json);
  const bool negative = text.starts_with('-');
  const bool whole = text.find_first_of(".eE") == std::string::npos && text.size() - (negative ? 1 : 0) <= kDigitsMax;
  if (!whole) return jinja::Value(number_value(json));
  jinja::Int value = 0;
  for (const char digit : std::string_view(text).substr(negative ? 1 : 0)) value = value * 10 + (digit - '0');
  return jinja::Value(negative ? -value : value);
}

// Converts JSON to values of a rendering. The budget's depth bounds the recursion.
Result<jinja::Value> to_value(jinja::Budget& budget, const ordered_json& json, OwnString own) {
  const jinja::DepthGuard deeper(budget);
  CAIRN_TRY_VOID(deeper.check());
  switch (json.type()) {
    case ordered_json::value_t::null:
      return jinja::Value();
    case ordered_json::value_t::boolean:
      return jinja::Value(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return jinja::Value(jinja::Int{json.get<int64_t>()});
    case ordered_json::value_t::number_unsigned:
      return jinja::Value(jinja::Int{json.get<uint64_t>()});
    case ordered_json::value_t::number_float:
      return jinja::Value(json.get<double>());
    case ordered_json::value_t::binary:
      if (is_any_number(json)) return number_in_text(json);
      break;
    case ordered_json::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      return jinja::make_text(budget, own(json) ? jinja::Piece::own(bytes) : jinja::Piece::foreign(bytes));
    }
    case ordered_json::value_t::array: {
      std::vector<jinja::Value> items;
      items.reserve(json.size());
      for (const ordered_json& item : json) {
        CAIRN_TRY(jinja::Value value, to_value(budget, item, own));
        items.push_back(std::move(value));
      }
      return jinja::make_list(budget, std::move(items));
    }
    case ordered_json::value_t::object: {
      jinja::DictBuilder dict(budget);
      for (const auto& [key, item] : json.items()) {
        CAIRN_TRY(jinja::Value value, to_value(budget, item, own));
        CAIRN_TRY_VOID(dict.add(jinja::Piece::foreign(key), std::move(value)));
      }
      return dict.finish();
    }
    default:
      break;
  }
  return fail(Code::kInvalidArgument, "a template variable holds bytes, which JSON has no form of");
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

Result<JinjaTemplate> JinjaTemplate::parse(std::string_view source) {
  auto program = std::make_unique<Program>();
  CAIRN_TRY(program->parsed, jinja::parse_template(source));
  return JinjaTemplate(std::move(program));
}

Result<Rendering> JinjaTemplate::render(const nlohmann::ordered_json& variables, OwnString own, std::time_t now,
                                        const JinjaLimits& limits) const {
  if (!variables.is_object()) return fail(Code::kInvalidArgument, "the template's variables are not a JSON object");
  jinja::Budget budget(limits);
  jinja::Interpreter interpreter(program_->parsed, budget, now);
  const auto& names = program_->parsed.names;
  for (size_t id = 0; id < names.size(); ++id) {
    const auto found = variables.find(names[id]);
    if (found == variables.end()) continue;
    CAIRN_TRY(jinja::Value value, to_value(budget, *found, own));
    interpreter.set_variable(static_cast<jinja::NameId>(id), std::move(value));
  }
  return interpreter.run();
}

}  // namespace cairn::jinja
