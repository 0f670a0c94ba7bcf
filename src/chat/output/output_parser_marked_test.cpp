// Test cases of formats with markers around name and arguments, and of Harmony.
#include "chat/testing/output_parser_cases.h"

namespace cairn::chat {
namespace {

OutputCase harmony(std::string output, std::vector<std::string> lines) {
  return {ToolFormat::kHarmony, ReasoningFormat::kHarmony, "<|end|><|start|>assistant", std::move(output),
          std::move(lines)};
}

constexpr auto kV3 = ToolFormat::kDeepSeekV3;
constexpr auto kV31 = ToolFormat::kDeepSeekV31;
const std::vector<OutputCase> kMarkedCases = {
    as(ToolFormat::kMistral, "Well.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
       {"C Well.", "f{\"a\": 1}", "g{}"}),
    as(ToolFormat::kMistralId, "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"a\": 1}", {"f#abcdefghi{\"a\": 1}"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f{\"a\": 1}", {"f{\"a\": 1}"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", {"f{}"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f[ARGS]{\"a\": \"x", {"f{\"a\": \"x~"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f[ARGS]", {"f{~"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f[AR", {"C [TOOL_CALLS]f[AR"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f[ARGS]none", {"fnone!"}),
    as(ToolFormat::kMistral, "[TOOL_CALLS] is a marker.", {"C [TOOL_CALLS] is a marker."}),
    as(ToolFormat::kMistral, "[TOOL_CALLS]f[ARGS]{} Done.", {"f{}", "C Done."}),

    as(kV3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "1}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"f{\"a\": 1}", "g{}"}),
    as(kV3, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{\"a\": 1}<｜tool▁call▁end｜>", {"f{\"a\": 1}"}),
    as(kV3, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>", {"f{\"a\": 1}"}),
    as(kV3, "<｜tool▁calls▁begin｜>what", {"C <｜tool▁calls▁begin｜>what"}),
    as(kV31,
       "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
       "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>"
       "g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"C Well.", "f{\"a\": 1}", "g{}"}),
    as(kV31, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": [1", {"f{\"a\": [1~"}),
    as(kV3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "x}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"f{\"a\": x}\n```!", "g{}"}),
    as(kV3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "x}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.",
       {"f{\"a\": x}\n```!", "C Done."}),
    as(kV31, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n", {"f{}"}),

    as(ToolFormat::kKimi,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
       "<|tool_call_end|><|tool_call_begin|>g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       {"f#functions.f:0{\"a\": 1}", "g#g:1{}"}),
    as(ToolFormat::kKimi, "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"<|tool_call_end|>\"}",
       {"f#functions.f:0{\"a\": \"<|tool_call_end|>\"}"}),
    as(ToolFormat::kSolar,
       "<|tool_calls|><|tool_call:begin|>id1<|tool_call:name|>f<|tool_call:args|>{}<|tool_call:end|>", {"f#id1{}"}),

    as(ToolFormat::kGemma,
       "<|tool_call>call:f{a:<|\"|>say \"x\"<|\"|>,b:true,c:{d:[1,<|\"|>y<|\"|>]}}<tool_call|><|tool_call>call:g{}"
       "<tool_call|>Done.",
       {"f{\"a\":\"say \\\"x\\\"\",\"b\":true,\"c\":{\"d\":[1,\"y\"]}}", "g{}", "C Done."}),
    as(ToolFormat::kGemma, "<|tool_call>call:f{a:<|\"|>x", {"f{\"a\":\"x~"}),
    as(ToolFormat::kGemma, "<|tool_call>call me", {"C <|tool_call>call me"}),

    as(ToolFormat::kFunctionaryRecipient, ">>>all\nI will look.>>>get_weather\n{\"days\": 3}\n>>>now\n{}",
       {"C I will look.", "get_weather{\"days\": 3}", "now{}"}),
    as(ToolFormat::kFunctionaryRecipient, "In Python:\n>>> now()\n>>>all", {"C In Python:\n>>> now()\n>>>all"}),
    {ToolFormat::kFunctionaryRecipient, ReasoningFormat::kThink, "\n\n>>>", "all\nI will look.", {"C I will look."}},
    {ToolFormat::kFunctionaryRecipient, ReasoningFormat::kThink, "\n\n>>>", "now\n{}", {"now{}"}},
    {ToolFormat::kFunctionaryRecipient, ReasoningFormat::kThink, "\n\n>>>", "no name", {"C no name"}},
};

const std::string kAnalysis = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
const std::vector<OutputCase> kHarmonyCases = {
    harmony("<|channel|>final<|message|>Yes.", {"C Yes."}),
    harmony(kAnalysis + "<|channel|>final<|message|>Yes.<|return|>", {"R Hm.", "C Yes."}),
    harmony(kAnalysis + "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
            {"R Hm.", "f{\"a\": 1}"}),
    harmony(" to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}", {"f{\"a\": 1}"}),
    // A vocabulary that leaves out the space at an answer's beginning has it so.
    harmony("to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}", {"f{\"a\": 1}"}),
    harmony("<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary to=functions.f"
            "<|message|>{}<|call|><|start|>assistant to=functions.g<|channel|>commentary<|message|>{}",
            {"C I will look.", "f{}", "g{}"}),
    harmony(kAnalysis + "<|channel|>commentary to=functions.f<|message|>{\"a\": \"x", {"R Hm.", "f{\"a\": \"x~"}),
    harmony("<|channel|>commentary to=functions.f<|message|>{\"a\": 1<|call|>", {"f{\"a\": 1!"}),
    harmony("<|channel|>commentary to=functions.f<|message|>{\"a\": 1, b c}<|call|><|start|>assistant<|channel|>final"
            "<|message|>Yes.",
            {"f{\"a\": 1, b c}!", "C Yes."}),
    harmony("<|channel|>commentary to=functions.f<|message|>", {"f{~"}),
    harmony("<|channel|>commentary to=functions.f<|message|>print(1)", {"fprint(1)!"}),
    harmony("<|channel|>commentary to=now<|message|>{}", {"now{}"}),
    harmony("<|channel|>analysis to=python code<|message|>print(1)<|call|>",
            {"C <|channel|>analysis to=python code<|message|>print(1)"}),
    harmony("<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.", {"R Hm.", "C Yes."}),
    harmony("<|channel|>analysis<|message|>a <| b <|en", {"R a <| b <|en"}),
    harmony("<|channel|>ana", {}),
    harmony("Hello, no channel.", {"C Hello, no channel."}),
    harmony("", {}),
    {ToolFormat::kHarmony,
     ReasoningFormat::kHarmony,
     "<|start|>assistant<|channel|>analysis<|message|>",
     "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     {"R Hm.", "C Yes."}},
    {ToolFormat::kNone,
     ReasoningFormat::kHarmony,
     "<|start|>assistant",
     "<|channel|>commentary to=functions.f<|message|>{}",
     {"C <|channel|>commentary to=functions.f<|message|>{}"}},
};

}  // namespace

std::vector<OutputCase> marked_cases() { return kMarkedCases; }
std::vector<OutputCase> harmony_cases() { return kHarmonyCases; }

}  // namespace cairn::chat
