#include "chat/tool_calls/call_form.h"

#include <algorithm>
#include <array>

#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

using grammar::CallForm;

constexpr std::string_view kGemmaQuoteText = "<|\"|>";
constexpr std::string_view kHarmonyRole = "<|start|>assistant";
constexpr std::array<CallStart, 3> kHarmonyStarts = {{{"<|channel|>commentary to=functions."},
                                                      {"<|channel|>analysis to=functions."},
                                                      {"<|start|>assistant to=functions."}}};

/// What the format writes behind the text that opens a block, up to its first call.
std::string_view behind_start(const ToolStyle& style) {
  std::string_view open = style.syntax.block_open;
  if (style.block_starts.empty() || !open.starts_with(style.block_starts[0].text)) return open;
  open.remove_prefix(style.block_starts[0].text.size());
  return open;
}

/// Whether the block that begins so is written as the format's others are. With a mark, each spelling has its own tags.
bool is_canonical(const ToolStyle& style, std::string_view text) {
  return style.syntax_mark.empty() || style.syntax.block_open.starts_with(text) ||
         style.syntax.call_open.starts_with(text);
}

std::vector<std::string> opens_of(const ToolStyle& style, Spell spell) {
  const CallSyntax& syntax = style.syntax;
  std::vector<std::string> opens{spell(syntax.block_open, true)};
  for (const BlockStart& start : style.block_starts) {
    if (!is_canonical(style, start.text) || (!syntax.block_open.empty() && syntax.block_open.starts_with(start.text)))
      continue;
    opens.push_back(syntax.call_open.starts_with(start.text)
                        ? std::string()
                        : spell(std::string(start.text) + std::string(behind_start(style)), true));
  }
  if (style.bare != nullptr) opens.emplace_back();
  std::ranges::sort(opens);
  opens.erase(std::ranges::unique(opens).begin(), opens.end());
  return opens;
}

void set_arguments(const CallSyntax& syntax, Spell spell, CallForm& form) {
  switch (syntax.form) {
    case ArgumentForm::kJson:
      return;
    case ArgumentForm::kGemma:
      // The object's own brace ends the name.
      form.name_closes = {""};
      form.notation = {.escapes = false,
                       .open_quote = spell(kGemmaQuoteText, false),
                       .close_quote = spell(kGemmaQuoteText, false),
                       .bare_keys = true,
                       .null = {"null", "None"},
                       .absent = {std::string(kGemmaQuoteText)}};
      return;
    case ArgumentForm::kPython:
      form.arguments = CallForm::Arguments::kParameters;
      form.parameter = {.key_close = spell(syntax.parameter.key_close, false), .between = ",", .has_texts = false};
      form.notation = {.single_quotes = true, .null = {"None"}, .no = {"False"}, .yes = {"True"}};
      form.call_close = ")" + form.call_close;
      return;
    case ArgumentForm::kTags:
      break;
  }
  const ParameterSyntax& parameter = syntax.parameter;
  form.arguments = CallForm::Arguments::kParameters;
  form.parameter = {.open = spell(parameter.open, false),
                    .key_close = spell(parameter.key_close, false),
                    .other_key_close = spell(parameter.other_key_close, false),
                    .close = spell(parameter.close, false),
                    .text_open = std::string(parameter.text_open),
                    .text_close = std::string(parameter.text_close),
                    .marked = !parameter.other_key_close.empty()};
  for (const TagEnd& end : parameter.ends) form.notation.absent.emplace_back(end.marker);
}

std::vector<CallForm> harmony_forms(Spell spell) {
  CallForm in_channel{.opens = {spell(kHarmonyStarts[0].text, true), spell(kHarmonyStarts[1].text, true)}};
  CallForm in_role{.opens = {spell(kHarmonyStarts[2].text, true)}};
  in_channel.spacing = in_role.spacing = grammar::Spacing::kNone;
  for (const std::string_view type :
       {" <|constrain|>json<|message|>", "<|constrain|>json<|message|>", " json<|message|>", "<|message|>"}) {
    in_channel.name_closes.push_back(spell(type, false));
    in_role.name_closes.push_back(spell("<|channel|>commentary" + std::string(type), false));
  }
  return {std::move(in_channel), std::move(in_role)};
}

}  // namespace

std::vector<CallStart> call_starts(const ToolStyle& style) {
  if (style.format == ToolFormat::kHarmony) return {kHarmonyStarts.begin(), kHarmonyStarts.end()};
  std::vector<CallStart> starts;
  for (const BlockStart& start : style.block_starts) {
    if (!is_canonical(style, start.text)) continue;
    // A word alone may stand in any text.
    const bool is_word = std::ranges::all_of(start.text, is_letter);
    const std::string_view text = is_word ? style.syntax.block_open.substr(0, start.text.size() + 1) : start.text;
    starts.push_back({text, !start.known_names_only});
  }
  return starts;
}

std::vector<CallForm> call_forms(const ToolStyle& style, Spell spell) {
  if (style.format == ToolFormat::kHarmony) return harmony_forms(spell);
  const CallSyntax& syntax = style.syntax;
  const std::string_view closer = trim(syntax.block_close);
  const bool one_in_block = !closer.empty() && trim(syntax.separator).starts_with(closer);
  const bool is_json = syntax.call_open.contains("{\"");
  CallForm form{.opens = opens_of(style, spell),
                .call_open = spell(syntax.call_open, true),
                .name_closes = {spell(syntax.name_close, false)},
                .call_close = spell(syntax.call_close, false),
                .separator = spell(syntax.separator, false),
                .close = spell(syntax.block_close, false),
                .spacing = is_json ? grammar::Spacing::kJson : grammar::Spacing::kMarkup,
                .id_bytes = static_cast<uint32_t>(style.id_bytes)};
  form.repeats = !one_in_block && !(is_json ? syntax.separator : syntax.block_open).empty();
  form.id_member = is_json;
  set_arguments(syntax, spell, form);
  return {std::move(form)};
}

grammar::MessageFrame harmony_frame(Spell spell, bool thinks) {
  const auto headed = [&](std::string_view rest) { return spell(std::string(kHarmonyRole) + std::string(rest), true); };
  grammar::MessageFrame frame{
      .answer_opens = {headed("<|channel|>final<|message|>"), headed("<|channel|>final <|constrain|>json<|message|>"),
                       // This is what is forced where a vocabulary puts a space behind each special token.
                       spell("<|start|> assistant<|channel|> final<|message|>", true)}};
  if (!thinks) return frame;
  frame.thinking_open = headed("<|channel|>analysis<|message|>");
  frame.thinking_close = spell("<|end|>", false);
  return frame;
}

std::vector<CallForm> harmony_calls(Spell spell) {
  std::vector<CallForm> forms = harmony_forms(spell);
  for (CallForm& form : forms) {
    for (std::string& open : form.opens)
      if (!open.starts_with(spell(kHarmonyRole, true))) open.insert(0, spell(kHarmonyRole, true));
  }
  return forms;
}

std::string_view harmony_begun(std::string_view prompt) {
  const size_t at = prompt.rfind(kHarmonyRole);
  return at == std::string_view::npos ? std::string_view() : prompt.substr(at);
}

grammar::ParameterKind parameter_kind(ValueKind kind) {
  switch (kind) {
    case ValueKind::kString:
      return grammar::ParameterKind::kText;
    case ValueKind::kStringOrNull:
      return grammar::ParameterKind::kTextOrNull;
    case ValueKind::kOther:
      return grammar::ParameterKind::kValue;
    case ValueKind::kUnknown:
      break;
  }
  return grammar::ParameterKind::kEither;
}

}  // namespace cairn::chat::tool_call
