// Built-in chat templates. Their fixed texts are those on which the model was trained, character for character; see
// NOTICE.
#include "chat/builtin_templates.h"

#include <algorithm>
#include <array>

namespace cairn::chat {
namespace {

constexpr std::string_view kDeepseek4 = R"jinja(
{%- set thinks = thinking if thinking is defined else (enable_thinking if enable_thinking is defined else false) -%}
{%- set drops = drop_thinking if drop_thinking is defined else true -%}
{%- set mark = '｜DSML｜' -%}
{%- set effort = 'Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.

' -%}
{%- set manual = '## Tools

You have access to a set of tools to help answer the user\'s question. You can invoke tools by writing a "<' ~ mark ~ 'tool_calls>" block like the following:

<' ~ mark ~ 'tool_calls>
<' ~ mark ~ 'invoke name="$TOOL_NAME">
<' ~ mark ~ 'parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</' ~ mark ~ 'parameter>
...
</' ~ mark ~ 'invoke>
<' ~ mark ~ 'invoke name="$TOOL_NAME2">
...
</' ~ mark ~ 'invoke>
</' ~ mark ~ 'tool_calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

' -%}
{%- set manual_end = '
You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
' -%}

{%- set seen = namespace(system=none, tools=false, results=false, last_user=-1) -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set text = message.content or '' -%}
    {%- set seen.system = text if seen.system is none else seen.system ~ '\n\n' ~ text -%}
  {%- elif message.role in ['user', 'developer', 'tool'] -%}
    {%- set seen.last_user = loop.index0 -%}
    {%- if message.role == 'tool' -%}{%- set seen.results = true -%}{%- endif -%}
  {%- endif -%}
{%- endfor -%}
{%- set head = namespace(text=seen.system or '') -%}
{%- if tools is defined and tools -%}
  {%- set seen.tools = true -%}
  {%- set list = namespace(text=manual) -%}
  {%- for tool in tools if tool.type == 'function' -%}
    {%- set list.text = list.text ~ (tool.function | tojson) ~ '\n' -%}
  {%- endfor -%}
  {%- set list.text = list.text ~ manual_end -%}
  {%- if not head.text -%}
    {%- set head.text = list.text -%}
  {%- elif tools_first is defined and tools_first -%}
    {%- set head.text = list.text ~ '\n' ~ head.text -%}
  {%- else -%}
    {%- set head.text = head.text ~ '\n\n' ~ list.text -%}
  {%- endif -%}
{%- endif -%}
{%- if response_format is defined and response_format -%}
  {%- set schema = '## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n' ~ (response_format | tojson) -%}
  {%- set head.text = head.text ~ '\n\n' ~ schema if head.text else schema -%}
{%- endif -%}

{{- bos_token -}}
{%- if messages and thinks and reasoning_effort is defined and reasoning_effort == 'max' %}{{ effort }}{% endif -%}
{{- head.text -}}
{%- set turn = namespace(is_user=false) -%}
{%- for message in messages -%}
  {%- if message.role in ['user', 'developer', 'tool'] -%}
    {{- '\n\n' if turn.is_user else '<｜User｜>' -}}
    {%- set turn.is_user = true -%}
    {%- set text = message.content or '' -%}
    {{- '<tool_result>' ~ text ~ '</tool_result>' if message.role == 'tool' else text -}}
  {%- elif message.role == 'assistant' -%}
    {%- set turn.is_user = false -%}
    {{- '<｜Assistant｜>' -}}
    {%- if thinks and (not drops or seen.tools or seen.results or loop.index0 > seen.last_user) -%}
      {{- '<think>' ~ (message.reasoning_content or '') -}}
    {%- endif -%}
    {{- '</think>' ~ (message.content or '') -}}
    {%- if message.tool_calls -%}
      {{- '\n\n<' ~ mark ~ 'tool_calls>\n' -}}
      {%- for call in message.tool_calls -%}
        {%- set arguments = call.function.arguments -%}
        {{- '<' ~ mark ~ 'invoke name="' ~ call.function.name ~ '">\n' -}}
        {%- if arguments is mapping and arguments -%}
          {%- for key, value in arguments.items() -%}
            {{- '<' ~ mark ~ 'parameter name="' ~ key ~ '" string="' ~ ('true' if value is string else 'false') ~ '">' -}}
            {{- (value if value is string else value | tojson) ~ '</' ~ mark ~ 'parameter>\n' -}}
          {%- endfor -%}
        {%- elif arguments is string and arguments -%}
          {{- '<' ~ mark ~ 'parameter name="arguments" string="true">' ~ arguments ~ '</' ~ mark ~ 'parameter>\n' -}}
        {%- else -%}
          {{- '\n' -}}
        {%- endif -%}
        {{- '</' ~ mark ~ 'invoke>\n' -}}
      {%- endfor -%}
      {{- '</' ~ mark ~ 'tool_calls>' -}}
    {%- endif -%}
    {{- '<｜end▁of▁sentence｜>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' ~ ('<think>' if thinks else '</think>') }}{% endif -%}
)jinja";

// The form of Llama 3's instruction models (Meta's model card, "Prompt Template").
constexpr std::string_view kLlama3 = R"jinja(
{{- bos_token -}}
{%- for message in messages -%}
  {{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\n\n' -}}
  {%- if message.content is string -%}
    {{- message.content | trim -}}
  {%- elif message.content -%}
    {{- message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\n') | trim -}}
  {%- endif -%}
  {{- '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif -%}
)jinja";

// The form of Gemma's instruction models (Google's page on Gemma's formatting): there are the roles user and model, and
// what a system message says stands in front of the first user's.
constexpr std::string_view kGemma = R"jinja(
{{- bos_token -}}
{%- set said = namespace(system='') -%}
{%- for message in messages -%}
  {%- set text = namespace(all='') -%}
  {%- if message.content is string -%}
    {%- set text.all = message.content | trim -%}
  {%- elif message.content -%}
    {%- set text.all = message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\n') | trim -%}
  {%- endif -%}
  {%- if message.role == 'system' -%}
    {%- set said.system = said.system ~ text.all ~ '\n\n' -%}
  {%- else -%}
    {%- set role = 'model' if message.role == 'assistant' else 'user' -%}
    {{- '<start_of_turn>' ~ role ~ '\n' ~ said.system ~ text.all ~ '<end_of_turn>\n' -}}
    {%- set said.system = '' -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%}
)jinja";

struct Fallback {
  std::string_view architectures;  // what their names begin with
  FallbackTemplate made;
  std::array<std::string_view, 3> tokens;  // that it needs
};
constexpr Fallback kFallbacks[] = {
    {"llama", {"Llama 3", kLlama3}, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {"mistral", {"Llama 3", kLlama3}, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {"gemma", {"Gemma", kGemma}, {"<start_of_turn>", "<end_of_turn>", "<start_of_turn>"}},
};

}  // namespace

FallbackTemplate fallback_template(std::string_view architecture,
                                   const std::function<bool(std::string_view)>& has_token) {
  for (const Fallback& fallback : kFallbacks) {
    if (architecture.starts_with(fallback.architectures) && std::ranges::all_of(fallback.tokens, has_token))
      return fallback.made;
  }
  return {"ChatML", {}};
}

std::string_view builtin_template(std::string_view architecture) {
  return architecture == "deepseek4" ? kDeepseek4 : std::string_view();
}

}  // namespace cairn::chat
