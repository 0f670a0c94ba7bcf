#include "api/embedding/embeddings.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "api/embedding/embedding_run.h"
#include "api/http/tenant.h"
#include "api/params/request_fields.h"
#include "chat/completion_prompt.h"

namespace cairn::api {
namespace {

// A token that closes texts stays at the end.
void truncate_prompt(const loader::LoadedModel& model, const std::string& path, size_t most, RequestContext& context,
                     std::vector<TokenId>& tokens) {
  if (tokens.size() <= most) return;
  context.note_ignored(path, fmt::format("{} of a request to embed has {} tokens, of which the first {} have a vector",
                                         path, tokens.size(), most));
  const TokenId last = tokens.back();
  tokens.resize(most);
  const tokenizer::SpecialTokens& special = model.tokenizer->special();
  if (special.add_eos && last == special.eos) tokens.back() = last;
}

/// Refuses a text whose length alone says that it is too long, which is not tokenised.
Result<void> check_length(const loader::LoadedModel& model, std::string_view text, const std::string& path) {
  const Result<void> fits = chat::check_length(model.prompt_context(), text, path);
  if (fits) return {};
  return std::unexpected(too_long(path, fits.error().overflow->prompt_tokens, model.engine->context_tokens(), true));
}

// The first piece begins as a text does, if it is one; ids are taken as they are.
Result<std::vector<TokenId>> pieces_prompt(const loader::LoadedModel& model, const EmbeddingPieces& pieces,
                                           const std::string& path) {
  std::vector<TokenId> prompt;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (const auto* token = std::get_if<TokenId>(&pieces[i])) {
      prompt.push_back(*token);
      continue;
    }
    const auto& text = std::get<std::string>(pieces[i]);
    CAIRN_TRY_VOID(check_length(model, text, path));
    if (i == 0) {
      CAIRN_TRY(prompt, chat::completion_prompt_tokens(model.prompt_context(), text));
    } else {
      CAIRN_TRY_VOID(chat::append_text(*model.tokenizer, text, {}, prompt));
    }
  }
  return prompt;
}

}  // namespace

void refuse_embedding_fields(RequestFields& fields) {
  for (const auto* name : {"prompt_name", "prompt", "instruction", "instruct", "input_type", "task", "task_type"})
    if (!fields.was_read(name)) fields.only_empty(name, "put what the model wants in front of a text into the text");
  fields.only_empty("pooling", "vectors are pooled as the model's file says");
  fields.only("add_special_tokens", true, "send token ids");
  fields.only("late_chunking", false, "send each chunk as a text");
  for (const auto* name : {"embed_dtype", "embedding_type", "output_dtype"})
    fields.only_if(
        name, [](const nlohmann::ordered_json& value) { return value == "float" || value == "float32"; },
        "vectors have 32-bit floats; encoding_format says how they are written");
}

void check_truncation_direction(RequestFields& fields) {
  fields.only_if(
      "truncation_direction", [](const nlohmann::ordered_json& value) { return value == "right" || value == "Right"; },
      "texts are cut at their end, \"right\"");
}

Result<void> check_embeddings(const loader::LoadedModel& model, const EmbeddingsRequest& request) {
  if (model.embedding.dimensions == 0) {
    return fail_at("model", Code::kUnsupported, "{} gives no embeddings", model.name);
  }
  if (model.embedding.pooling == model::Pooling::kRank) {
    return fail_at("model", Code::kUnsupported, "{} ranks texts and gives no embeddings: use /v1/rerank", model.name);
  }
  if (request.dimensions > model.embedding.dimensions) {
    return fail_at("dimensions", Code::kInvalidArgument, "dimensions is {}, but the vectors of {} have {}",
                   request.dimensions, model.name, model.embedding.dimensions);
  }
  const int32_t each = request.dimensions == 0 ? model.embedding.dimensions : request.dimensions;
  const auto values = static_cast<int64_t>(request.inputs.size()) * each;
  if (values <= kEmbedValuesMax) return {};
  return fail_at("input", Code::kTooLarge,
                 "{} vectors of {} numbers are {}; {} is the most: send fewer texts, or fewer dimensions",
                 request.inputs.size(), each, values, kEmbedValuesMax);
}

Result<std::vector<TokenId>> embedding_prompt(const loader::LoadedModel& model, EmbeddingInput input,
                                              std::optional<size_t> tokens_max, const std::string& path,
                                              RequestContext& context) {
  std::vector<TokenId> prompt;
  if (auto* tokens = std::get_if<std::vector<TokenId>>(&input)) {
    prompt = std::move(*tokens);
  } else if (const auto* pieces = std::get_if<EmbeddingPieces>(&input)) {
    CAIRN_TRY(prompt, pieces_prompt(model, *pieces, path));
  } else {
    if (!tokens_max) CAIRN_TRY_VOID(check_length(model, std::get<std::string>(input), path));
    auto encoded = model.tokenizer->encode(std::get<std::string>(input), {.add_special = true});
    if (!encoded) return fail_at(path, encoded.error().code, "{}: {}", path, encoded.error().message);
    prompt = std::move(*encoded);
  }
  if (prompt.empty()) return fail_at(path, Code::kInvalidArgument, "{} is empty", path);
  if (tokens_max) truncate_prompt(model, path, *tokens_max, context, prompt);
  return prompt;
}

Result<std::vector<float>> normalised(std::vector<float> embedding, int32_t dimensions) {
  if (dimensions > 0) embedding.resize(static_cast<size_t>(dimensions));
  double squares = 0;
  for (const float value : embedding) squares += double{value} * value;
  const double length = std::sqrt(squares);
  if (!(length > 0) || !std::isfinite(length)) {
    return fail(Code::kInternal, "the model gave no usable vector (its length is {})", length);
  }
  for (float& value : embedding) value = static_cast<float>(value / length);
  return embedding;
}

engine::GenerateRequest embedding_request(const loader::LoadedModel& model, const net::HttpRequest& http,
                                          size_t texts) {
  engine::GenerateRequest request;
  request.embed = engine::EmbeddingOptions{.pooling = model.embedding.pooling};
  request.priority = texts > kEmbedInteractiveTexts ? engine::Priority::kBatch : engine::Priority::kInteractive;
  name_owner(http, request);
  return request;
}

std::string vector_json(std::span<const float> values) {
  std::string text = "[";
  for (const float value : values) fmt::format_to(std::back_inserter(text), "{}{}", text.size() == 1 ? "" : ",", value);
  return text += ']';
}

}  // namespace cairn::api
