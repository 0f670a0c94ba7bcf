/// llama.cpp's POST /completion and POST /infill -> what the engine takes.
///
/// Source: llama.cpp, tools/server/README.md, "POST /completion". docs/api/llama_cpp.md lists every field.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/params/answer_form.h"
#include "base/error.h"
#include "base/ids.h"
#include "chat/infill_prompt.h"
#include "engine/engine.h"

namespace cairn::api {
class RequestContext;
}  // namespace cairn::api

namespace cairn::api::llama_cpp {

inline constexpr size_t kPromptPiecesMax = 1 << 20;  ///< token ids and texts of one prompt
inline constexpr size_t kResponseFieldsMax = 256;
inline constexpr size_t kInfillFilesMax = 1'024;

/// Text and token ids, in order.
using PromptPiece = std::variant<std::string, std::vector<TokenId>>;
using MixedPrompt = std::vector<PromptPiece>;

struct CompletionRequest {
  std::string model;
  std::vector<MixedPrompt> prompts;
  std::optional<chat::InfillInput> infill{};  ///< in place of prompts
  int choices = 1;                            ///< of each prompt
  bool several = false;                       ///< the answer is an array, also of one
  bool stream = false;
  bool return_tokens = false;
  bool return_progress = false;
  bool timings_per_token = false;
  std::vector<std::string> response_fields{};  ///< all that is answered, "a/b" for b of a; empty: everything
  chat::AnswerForm form;                       ///< what the answers are held to
  engine::GenerateRequest generate;            ///< everything but the prompt, the id and the tenant
};

Result<CompletionRequest> parse_completion(RequestContext& context, const nlohmann::ordered_json& body);
Result<CompletionRequest> parse_infill(RequestContext& context, const nlohmann::ordered_json& body);

}  // namespace cairn::api::llama_cpp
