/// OpenAI's request bodies for chat completions and completions -> what the engine and the templates take.
///
/// Source: OpenAI API reference, "Chat Completions" and "Completions"; fields beyond it are those that llama.cpp and
/// vLLM share. docs/api/openai.md lists every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "api/chat/request.h"
#include "api/params/fields.h"
#include "base/error.h"
#include "engine/engine.h"

namespace cairn::api::openai {

inline constexpr size_t kStopsMax = 16;  ///< strings in `stop`
inline constexpr size_t kCacheSaltBytesMax = 256;
inline constexpr int64_t kTargetMsMax = 3'600'000;  ///< of metadata.target_ttft_ms and target_tbt_ms: an hour

/// What both endpoints take besides the prompt.
struct CommonFields {
  std::string model;
  int choices = 1;  ///< n
  bool stream = false;
  bool include_usage = false;
  GenerateRequest generate;  ///< everything but the prompt, the id and the tenant
};

struct OpenAiChatRequest {
  ChatRequest chat;
  bool include_usage = false;
};

using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;
struct CompletionRequest {
  CommonFields common;
  std::vector<CompletionPrompt> prompts;
};

Result<OpenAiChatRequest> parse_chat(const nlohmann::ordered_json& body);
Result<CompletionRequest> parse_completion(const nlohmann::ordered_json& body);

/// messages, tools, chat_template_kwargs, add_generation_prompt: shared with /apply-template.
ChatInput read_chat_input(Fields& fields);
/// stop, sampling, ignore_eos, priority, metadata's targets and cache_salt: what other protocols take in the same
/// words.
void read_generate(Fields& fields, GenerateRequest& generate);

}  // namespace cairn::api::openai
