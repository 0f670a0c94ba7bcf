#include "api/chat/held_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat/tool_calls/format.h"

namespace cairn::api {
namespace {

using grammar::GrammarSource;
using nlohmann::ordered_json;

GrammarSource::Tagged tagged(const ordered_json& tool, std::string before, bool space) {
  const ordered_json& function = tool["function"];
  GrammarSource::Tagged out{.before = std::move(before), .space = space};
  if (const auto found = function.find("parameters"); found != function.end() && found->is_object())
    out.schema = *found;
  if (!out.schema.contains("type")) out.schema["type"] = "object";
  const auto strict = function.find("strict");
  out.strict = strict != function.end() && *strict == true;
  out.field = function.value("name", "") + ": parameters";
  return out;
}

bool has_control_token(const LoadedModel& model, const AnswerVocabulary& vocabulary, std::string_view text) {
  const auto tokens = model.tokenizer->encode(text, {.add_special = false, .parse_special = true});
  return !tokens || std::ranges::any_of(*tokens, [&](TokenId id) { return vocabulary.masks.piece(id).empty(); });
}

}  // namespace

std::optional<GrammarSource> held_call(const LoadedModel& model, const ChatRequest& request, const ordered_json& tools,
                                       const AnswerVocabulary& vocabulary) {
  const auto* style = tool_call::find_style(model.output_format.tools);
  if (style == nullptr && model.output_format.tools != ToolFormat::kHarmony) return {};
  if (style != nullptr && style->syntax.form != tool_call::ArgumentForm::kJson) return {};
  std::string_view close = style == nullptr ? std::string_view() : style->syntax.name_close;
  const bool space = close.ends_with(' ');  // it is not forced: it belongs to the token behind it
  while (close.ends_with(' ')) close.remove_suffix(1);

  GrammarSource out{.kind = GrammarSource::Kind::kTagged, .field = "tools"};
  const bool named = !request.tool_name.empty() || request.input.tools.size() == 1;
  if (!named &&
      (style == nullptr || close.find('{') != std::string_view::npos || has_control_token(model, vocabulary, close)))
    return {};
  std::string name = request.tool_name;
  if (named && name.empty()) name = request.input.tools[0]["function"].value("name", "");
  for (const ordered_json& tool : tools) {
    const std::string own = tool["function"].value("name", "");
    if (named && own != name) continue;
    out.tagged.push_back(tagged(tool, named ? std::string() : own + std::string(close), space));
    if (named) break;
  }
  if (out.tagged.empty() || !std::ranges::all_of(out.tagged, &GrammarSource::Tagged::strict)) return {};
  return out;
}

}  // namespace cairn::api
