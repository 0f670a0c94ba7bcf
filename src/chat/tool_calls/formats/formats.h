/// Every format's entry, each defined in its own file; format.cpp lists them.
#pragma once

#include "chat/tool_calls/format.h"

namespace cairn::chat::tool_call {

namespace styles {
extern const ToolStyle kHermes;
extern const ToolStyle kLlama;
extern const ToolStyle kMistral;
extern const ToolStyle kMistralList;
extern const ToolStyle kMistralId;
extern const ToolStyle kDeepSeekV3;
extern const ToolStyle kDeepSeekV31;
extern const ToolStyle kDsmlV32;
extern const ToolStyle kDsmlV4;
extern const ToolStyle kQwenCoder;
extern const ToolStyle kSeed;
extern const ToolStyle kGlm;
extern const ToolStyle kHy;
extern const ToolStyle kKimi;
extern const ToolStyle kKimiK3;
extern const ToolStyle kHarmony;
extern const ToolStyle kCommandR;
extern const ToolStyle kCommandRPlus;
extern const ToolStyle kGemma;
extern const ToolStyle kGemmaFence;
extern const ToolStyle kGranite;
extern const ToolStyle kApertus;
extern const ToolStyle kApriel;
extern const ToolStyle kFireFunction;
extern const ToolStyle kFunctionary;
extern const ToolStyle kFunctionaryRecipient;
extern const ToolStyle kGigaChat;
extern const ToolStyle kGigaChatRole;
extern const ToolStyle kLfm;
extern const ToolStyle kMiniCpm;
extern const ToolStyle kMiniMaxM1;
extern const ToolStyle kMiniMaxM2;
extern const ToolStyle kNemotron;
extern const ToolStyle kSolar;
}  // namespace styles

/// What follows <tool_call>, which three formats begin with: an object or list (Hermes), <function= (Qwen3-Coder), or a
/// name (GLM). Models mix them up, and what follows tells them apart.
std::unique_ptr<ToolCallParser> open_tool_call();
std::unique_ptr<ToolCallParser> open_qwen_block();
std::unique_ptr<ToolCallParser> open_glm();

}  // namespace cairn::chat::tool_call
