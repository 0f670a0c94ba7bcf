#include "chat/answer/calls.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "chat/answer/form.h"
#include "chat/output/callable_names.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

using grammar::CalledTool;
using grammar::GrammarSource;
using nlohmann::ordered_json;

CalledTool called_tool(const ordered_json& tool, const tool_call::ToolSchemas& schemas, bool required) {
  const ordered_json& function = tool["function"];
  CalledTool out{.name = function.value("name", "")};
  if (const auto found = function.find("parameters"); found != function.end() && found->is_object())
    out.schema = *found;
  if (!out.schema.contains("type")) out.schema["type"] = "object";
  const auto strict = function.find("strict");
  const bool demanded = strict != function.end() && *strict == true;
  out.strict = demanded || required;
  out.lenient = !demanded;
  out.field = out.name + ": parameters";
  if (const auto found = out.schema.find("properties"); found != out.schema.end() && found->is_object()) {
    for (const auto& [name, schema] : found->items())
      out.kinds[name] = tool_call::parameter_kind(schemas.kind(out.name, name));
  }
  return out;
}

/// Errors: calls in this format cannot have the name of one of the tools.
Result<void> check_names(const tool_call::ToolStyle& style, const ordered_json& tools) {
  for (const ordered_json& tool : tools) {
    const std::string name = tool["function"].value("name", "");
    const std::string_view beginning = uncallable_beginning(style, name);
    if (beginning.empty()) continue;
    size_t at = beginning.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(beginning[at]) & 0xC0) == 0x80) --at;
    return fail_at(
        "tools", Code::kInvalidArgument,
        "tools: calls in this model's format, {}, cannot have the name \"{}\", because of the \"{}\" at the end "
        "of \"{}\"; rename the tool",
        style.name, name, beginning.substr(at), beginning);
  }
  return {};
}

}  // namespace

std::vector<CalledTool> called_tools(const ordered_json& tools, const CustomInputs& custom_inputs, bool required) {
  const tool_call::ToolSchemas schemas(tools);
  std::vector<CalledTool> called;
  for (const ordered_json& tool : tools) {
    called.push_back(called_tool(tool, schemas, required));
    CalledTool& made = called.back();
    if (const auto input = custom_inputs.find(made.name); input != custom_inputs.end()) made.input = input->second;
  }
  return called;
}

Result<HeldCallsRules> held_calls(const ChatModel& model, const ordered_json& tools, const CustomInputs& custom_inputs,
                                  bool required, const ForcedOpening& forced, bool prompt_opens,
                                  grammar::GrammarCache* grammars) {
  const auto* style = tool_call::find_style(model.output_format.tools);
  if (style == nullptr) return fail(Code::kInternal, "a model without a format of calls");
  CAIRN_TRY_VOID(check_names(*style, tools));
  HeldCallsRules rules{.vocabulary = model.constraints.vocabulary(), .completing = model.constraints.call_starts()};
  const auto spell = [&](std::string_view text, bool opens) { return rules.vocabulary->spell(text, opens); };
  const GrammarSource source{.kind = GrammarSource::Kind::kCalls,
                             .field = "tools",
                             .forms = tool_call::call_forms(*style, spell),
                             .tools = called_tools(tools, custom_inputs, required)};
  CAIRN_TRY(AnswerGrammarRules made, answer_rules(model, source, grammars));
  rules.grammar = std::move(made.grammar);
  for (const tool_call::CallStart& start : tool_call::call_starts(*style))
    rules.starts.push_back({std::string(start.text), spell(start.text, true), start.certain});
  if (style->bare != nullptr) rules.bare = style->bare->text;
  rules.begun =
      spell(prompt_opens ? style->prompt_open : forced.before, true) + forced.name + spell(forced.behind, false);
  rules.begun_certain = !prompt_opens;
  return rules;
}

}  // namespace cairn::chat
