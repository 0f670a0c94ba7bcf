// Test cases of thinking, plain text, and text that only looks like a marker.
#include "chat/testing/output_parser_cases.h"

namespace cairn::chat {
namespace {

OutputCase think(std::string_view prompt, std::string output, std::vector<std::string> lines) {
  return {ToolFormat::kHermes, ReasoningFormat::kThink, prompt, std::move(output), std::move(lines)};
}

OutputCase as(ReasoningFormat reasoning, std::string_view prompt, std::string output, std::vector<std::string> lines) {
  return {ToolFormat::kHermes, reasoning, prompt, std::move(output), std::move(lines)};
}

const std::vector<OutputCase> kTextCases = {
    think("", "", {}),
    think("", "Hello, world.\n", {"C Hello, world.\n"}),
    think("", "  indented\n\n  more  \n", {"C   indented\n\n  more  \n"}),
    think("", "a < b, <thin air, <tool, <tool_cal", {"C a < b, <thin air, <tool, <tool_cal"}),
    think("", "<<<think>", {"C <<<think>"}),
    think("", "<think>\nHm.\nYes.\n</think>\n\nIt is 3.", {"R Hm.\nYes.", "C It is 3."}),
    think("", "\n<think></think>\n\nIt is 3.", {"C It is 3."}),
    think("", "<think>Never ends", {"R Never ends"}),
    think("", "<think>Nearly ended</thin", {"R Nearly ended</thin"}),
    think("", "What <think> means: </think> ends it.", {"C What <think> means: </think> ends it."}),
    think("assistant\n<think>\n", "Hm.</think>Yes.", {"R Hm.", "C Yes."}),
    think("assistant\n<think>\n", "<think>\nHm.</think>Yes.", {"R Hm.", "C Yes."}),
    think("assistant\n<think>", "The tag <think> opens.</think>Yes.", {"R The tag <think> opens.", "C Yes."}),
    think("assistant\n<think>\n\n</think>\n\n", "\nYes.", {"C Yes."}),
    think("assistant\n", "</think>\nYes.", {"C Yes."}),
    think("assistant\n", "<think>One.</think><think>Two.</think>Yes.", {"R One.Two.", "C Yes."}),
    // A call within thinking ends it; mentioning a call does not.
    think("<think>", "I must look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
          {"R I must look.", "now{}"}),
    think("<think>", "I must look.<tool_call>{\"name\": \"now\"}</tool_call></think>Done.",
          {"R I must look.", "now{}", "C Done."}),
    think("<think>", "I could write <tool_call> and {\"name\": \"now\"}.</think>No.",
          {"R I could write <tool_call> and {\"name\": \"now\"}.", "C No."}),
    think("<think>", "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call></think>No.",
          {"R <tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>", "C No."}),
    think("<think>", "Say <tool_call></think>No.", {"R Say <tool_call>", "C No."}),
    as(ReasoningFormat::kNone, "", "<think>Hm.</think>Yes.", {"C <think>Hm.</think>Yes."}),
    as(ReasoningFormat::kMistral, "", "[THINK]Hm.[/THINK]Yes [THINK].", {"R Hm.", "C Yes [THINK]."}),
    as(ReasoningFormat::kSeed, "", "<seed:think>Hm.</seed:think>Yes.", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kHy, "<think:opensource>", "Hm.</think:opensource>Yes.", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kMiniMaxM3, "", "<mm:think>Hm.</mm:think>Yes.", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kCohere, "<|START_THINKING|>", "Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
       {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kCohere, "", "<|START_TEXT|>Yes.<|END_TEXT|>", {"C Yes."}),
    as(ReasoningFormat::kGemma, "", "<|channel>thought\nHm.\n<channel|>Yes.", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kGemma, "<|channel>thought\n<channel|>", "Yes.", {"C Yes."}),
    as(ReasoningFormat::kGranite, "", "<think>Hm.</think>\n<response>Yes.</response>", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kGranite, "", "In XML: <response>Yes.</response>", {"C In XML: <response>Yes.</response>"}),
    as(ReasoningFormat::kGranitePhrases, "", "Here is my thought process: Hm. Here is my response: Yes.",
       {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kApertus, "", "<|inner_prefix|>Hm.<|inner_suffix|>Yes.", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kApriel, "Here are my reasoning steps:\n",
       "Hm.\n[BEGIN FINAL RESPONSE]\nYes.\n[END FINAL RESPONSE]", {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kKimiK3, "<|open|>think<|sep|>",
       "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|close|>message<|sep|>",
       {"R Hm.", "C Yes."}),
    as(ReasoningFormat::kSolar, "", "<|think|>Hm.<|end|><|begin|>assistant<|content|>Yes.", {"R Hm.", "C Yes."}),
    {ToolFormat::kNone,
     ReasoningFormat::kThink,
     "",
     "<tool_call>{\"name\": \"now\"}</tool_call>",
     {"C <tool_call>{\"name\": \"now\"}</tool_call>"}},
    {ToolFormat::kNone, ReasoningFormat::kNone, "", "Yes.", {"C Yes."}},
};

}  // namespace

std::vector<OutputCase> text_cases() { return kTextCases; }

}  // namespace cairn::chat
