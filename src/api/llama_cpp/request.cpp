#include "api/llama_cpp/request.h"

#include <algorithm>

#include "api/params/answer_form.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"
#include "api/params/sampling_fields.h"
#include "api/stream/generation.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

/// Elements are texts and token ids.
Result<MixedPrompt> read_mixed(const ordered_json& pieces, const std::string& path) {
  if (pieces.empty() || pieces.size() > kPromptPiecesMax)
    return fail_at(path, Code::kInvalidArgument, "{} must have 1 to {} elements", path, kPromptPiecesMax);
  MixedPrompt prompt;
  for (const auto& piece : pieces) {
    if (piece.is_string()) {
      prompt.emplace_back(piece.get<std::string>());
    } else if (is_token_id(piece)) {
      if (prompt.empty() || std::holds_alternative<std::string>(prompt.back()))
        prompt.emplace_back(std::vector<TokenId>());
      std::get<std::vector<TokenId>>(prompt.back()).push_back(TokenId{piece.get<int32_t>()});
    } else {
      return fail_at(path, Code::kInvalidArgument, "{} must hold texts and token ids only", path);
    }
  }
  return prompt;
}

Result<MixedPrompt> read_prompt(RequestContext& context, const ordered_json& value, const std::string& path) {
  if (value.is_string()) return MixedPrompt{value.get<std::string>()};
  if (value.is_array()) return read_mixed(value, path);
  if (!value.is_object()) {
    return fail_at(path, Code::kInvalidArgument, "{} must be a string or an array of token ids and texts, not {}", path,
                   json_kind(value));
  }
  RequestFields fields(context, value, path + ".");
  if (fields.get("prompt_string") == nullptr) fields.reject("prompt_string", "is missing");
  std::string text = fields.string("prompt_string", "");
  fields.only_empty("multimodal_data", "this model reads text only");
  CAIRN_TRY_VOID(fields.finish());
  return MixedPrompt{std::move(text)};
}

// One prompt, or an array of prompts: its elements are then all texts, or one of them is itself an array or an object.
Result<void> read_prompts(RequestContext& context, const ordered_json* value, CompletionRequest& request) {
  if (value == nullptr) return fail_at("prompt", Code::kInvalidArgument, "prompt is missing");
  bool all_texts = true;
  bool has_prompt = false;
  if (value->is_array()) {
    for (const auto& item : *value) {
      all_texts &= item.is_string();
      has_prompt |= item.is_array() || item.is_object();
    }
    request.several = !value->empty() && (all_texts || has_prompt);
  }
  if (!request.several) {
    CAIRN_TRY(MixedPrompt prompt, read_prompt(context, *value, "prompt"));
    request.prompts.push_back(std::move(prompt));
    return {};
  }
  if (value->size() > kChoicesMax) {
    return fail_at("prompt", Code::kInvalidArgument, "prompt may hold at most {} prompts, not {}", kChoicesMax,
                   value->size());
  }
  for (size_t i = 0; i < value->size(); ++i) {
    CAIRN_TRY(MixedPrompt prompt, read_prompt(context, (*value)[i], fmt::format("prompt[{}]", i)));
    request.prompts.push_back(std::move(prompt));
  }
  return {};
}

// llama.cpp's "a/b" is b of a.
std::vector<std::string> read_response_fields(RequestFields& fields) {
  const ordered_json* value = fields.get("response_fields");
  if (value == nullptr) return {};
  const auto is_text = [](const ordered_json& text) { return text.is_string(); };
  if (value->is_array() && value->size() <= kResponseFieldsMax && std::ranges::all_of(*value, is_text))
    return value->get<std::vector<std::string>>();
  fields.reject("response_fields", fmt::format("must be an array of at most {} strings", kResponseFieldsMax));
  return {};
}

void refuse_fields(RequestFields& fields) { fields.accept("stream_options", "the last event has all counts"); }

// What /completion and /infill share; all but the prompts.
CompletionRequest read_common(RequestFields& fields) {
  CompletionRequest request;
  engine::GenerateRequest& generate = request.generate;
  request.model = fields.string("model", "");
  request.stream = fields.boolean("stream", false);
  request.return_tokens = fields.boolean("return_tokens", false);
  request.timings_per_token = fields.boolean("timings_per_token", false);
  request.response_fields = read_response_fields(fields);
  request.choices = static_cast<int>(fields.integer_alias("n_cmpl", "n", 1, 1, kChoicesMax));
  read_generation_params(fields, generate);
  request.return_progress = fields.boolean("return_progress", false);
  generate.reports_prefill = request.return_progress || request.timings_per_token;
  read_probabilities(fields, generate.sampling);
  generate.max_tokens = read_token_limit(fields).value_or(-1);
  fields.accept({"thinking_budget_tokens", "reasoning_budget_tokens", "reasoning_format", "chat_template_kwargs"});
  read_answer_form(fields, request.form);
  refuse_fields(fields);
  return request;
}

Result<chat::InfillFile> read_file(RequestContext& context, const ordered_json& value, const std::string& path) {
  if (!value.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(value)));
  RequestFields fields(context, value, path + ".");
  chat::InfillFile file;
  file.name = fields.string("filename", "");
  if (fields.get("text") == nullptr) fields.reject("text", "is missing");
  file.text = fields.string("text", "");
  fields.accept({"time", "t"});  // of llama.vscode
  CAIRN_TRY_VOID(fields.finish());
  return file;
}

Result<std::vector<chat::InfillFile>> read_files(RequestContext& context, const ordered_json* value) {
  std::vector<chat::InfillFile> files;
  if (value == nullptr) return files;
  if (!value->is_array() || value->size() > kInfillFilesMax)
    return invalid_field("input_extra", fmt::format("must be an array of at most {} objects", kInfillFilesMax));
  for (size_t i = 0; i < value->size(); ++i) {
    CAIRN_TRY(chat::InfillFile file, read_file(context, (*value)[i], fmt::format("input_extra[{}]", i)));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<CompletionRequest> parse_completion(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  CompletionRequest request = read_common(fields);
  const ordered_json* prompt = fields.get("prompt");
  CAIRN_TRY_VOID(fields.finish());
  CAIRN_TRY_VOID(read_prompts(context, prompt, request));
  request.several |= request.choices > 1;
  if (request.prompts.size() * static_cast<size_t>(request.choices) > kChoicesMax) {
    return fail_at("n_cmpl", Code::kInvalidArgument, "{} prompts with n_cmpl = {} make more than {} choices",
                   request.prompts.size(), request.choices, kChoicesMax);
  }
  return request;
}

Result<CompletionRequest> parse_infill(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  CompletionRequest request = read_common(fields);
  request.several = request.choices > 1;
  chat::InfillInput& infill = request.infill.emplace();
  for (const auto* name : {"input_prefix", "input_suffix"})
    if (fields.get(name) == nullptr) fields.reject(name, "is missing");
  infill.prefix = fields.string("input_prefix", "");
  infill.suffix = fields.string("input_suffix", "");
  infill.prompt = fields.string("prompt", "");
  const ordered_json* files = fields.get("input_extra");
  fields.refuse("truncate_prompt_tokens", "the prompt is made to fit");
  CAIRN_TRY_VOID(fields.finish());
  CAIRN_TRY(infill.files, read_files(context, files));
  return request;
}

}  // namespace cairn::api::llama_cpp
