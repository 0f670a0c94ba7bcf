#include "api/openai/embeddings.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/embedding/embedding_run.h"
#include "api/params/prompt_cut.h"
#include "api/serialization/json_text.h"
#include "api/service.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kObjectForms =
    "must be {\"prompt_string\": text} or {\"content\": parts of type text}, or a text or token ids";
constexpr int64_t kEuclidean = 2;  // embd_normalize: length 1

/// llama.cpp's {"prompt_string"}, or {"content"} of text parts, which follow each other.
bool read_object(const ordered_json& value, EmbeddingsRequest& request) {
  if (const auto text = value.find("prompt_string"); text != value.end()) {
    if (text->is_string()) request.inputs.emplace_back(text->get<std::string>());
    return text->is_string();
  }
  const auto content = value.find("content");
  if (content == value.end() || !content->is_array()) return false;
  std::string text;
  for (const ordered_json& part : *content) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" || !part.contains("text") ||
        !part["text"].is_string())
      return false;
    text += part["text"].get_ref<const std::string&>();
  }
  request.inputs.emplace_back(std::move(text));
  return true;
}

/// A string, an object, or an array of ids, with texts between them.
bool read_one(const ordered_json& value, EmbeddingsRequest& request) {
  if (value.is_string()) {
    request.inputs.emplace_back(value.get<std::string>());
    return true;
  }
  if (value.is_object()) return read_object(value, request);
  if (!value.is_array()) return false;
  if (std::ranges::all_of(value, is_token_id)) {
    std::vector<TokenId> tokens;
    for (const auto& id : value) tokens.push_back(TokenId{id.get<int32_t>()});
    request.inputs.emplace_back(std::move(tokens));
    return true;
  }
  EmbeddingPieces pieces;
  for (const auto& piece : value) {
    if (piece.is_string()) {
      pieces.emplace_back(piece.get<std::string>());
    } else if (is_token_id(piece)) {
      pieces.emplace_back(TokenId{piece.get<int32_t>()});
    } else {
      return false;
    }
  }
  request.inputs.emplace_back(std::move(pieces));
  return true;
}

void read_input(RequestFields& fields, EmbeddingsRequest& request) {
  const std::string& name = request.field;
  const ordered_json* value = fields.get(name);
  if (value == nullptr) return fields.reject(name, "is missing");
  const auto is_number = [](const ordered_json& piece) { return piece.is_number(); };
  const bool one =
      value->is_string() || value->is_object() || (value->is_array() && std::ranges::any_of(*value, is_number));
  if (one) {
    if (read_one(*value, request)) return;
    fields.reject(name, value->is_object() ? std::string(kObjectForms) : "must hold token ids and texts only");
    return;
  }
  if (!value->is_array() || value->empty()) {
    return fields.reject(name, "must be a text, token ids, or an array of at least one of them");
  }
  if (value->size() > kEmbedTextsMax) {
    return fields.reject(name, fmt::format("has {} texts; {} is the most", value->size(), kEmbedTextsMax));
  }
  request.is_array = true;
  for (size_t i = 0; i < value->size(); ++i) {
    if (read_one((*value)[i], request)) continue;
    return fields.reject(fmt::format("{}[{}]", name, i), "must be a text or an array of token ids");
  }
}

/// Whether vectors have the length 1: llama.cpp's `embd_normalize`, and `normalize`, which vLLM and Infinity have.
bool read_normalise(RequestFields& fields) {
  const auto norm = fields.optional_integer("embd_normalize", -1, kEuclidean);
  if (norm == 0 || norm == 1) fields.reject("embd_normalize", "must be 2 (length 1) or -1 (as the model gives it)");
  const bool normalise = norm.value_or(kEuclidean) == kEuclidean;
  const bool other = fields.boolean("normalize", normalise);
  if (norm && other != normalise) fields.reject("normalize", "contradicts embd_normalize");
  return other;
}

class EmbeddingsTask final : public EmbedTask {
 public:
  EmbeddingsTask(const loader::LoadedModel& model, EmbeddingsRequest request)
      : model_(model), request_(std::move(request)), written_(request_.inputs.size()) {}

  size_t texts() const override { return request_.inputs.size(); }
  std::string path(size_t i) const override { return request_.path(i); }

  Result<void> prepare(size_t i, RequestContext& context, engine::GenerateRequest& request) override {
    const auto most = text_tokens_kept(request_.truncate, request_.tokens_max, model_.engine->context_tokens());
    CAIRN_TRY(request.prompt, embedding_prompt(model_, std::move(request_.inputs[i]), most, path(i), context));
    return {};
  }

  Result<void> take(size_t i, std::vector<float> embedding) override {
    if (request_.normalise) {
      CAIRN_TRY(embedding, normalised(std::move(embedding), request_.dimensions));
    } else if (request_.dimensions > 0) {
      embedding.resize(static_cast<size_t>(request_.dimensions));
    }
    written_[i] =
        (i == 0 ? "" : ",") + entry(i, request_.base64 ? '"' + base64_of(embedding) + '"' : vector_json(embedding));
    // What is in order joins the body at once, so that its end has little left to do.
    for (; joined_ < written_.size() && !written_[joined_].empty(); ++joined_) {
      body_ += std::exchange(written_[joined_], {});
    }
    return {};
  }

  std::string body(int64_t tokens) override {
    if (request_.shape != EmbeddingShape::kOpenAi) return "[" + body_ + "]";
    return R"({"object":"list","data":[)" + body_ +
           fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", dump(model_.name), tokens,
                       tokens);
  }

 private:
  std::string entry(size_t i, const std::string& vector) const {
    switch (request_.shape) {
      case EmbeddingShape::kLlamaCpp:
        return fmt::format(R"({{"index":{},"embedding":[{}]}})", i, vector);
      case EmbeddingShape::kTei:
        return vector;
      case EmbeddingShape::kOpenAi:
        break;
    }
    return fmt::format(R"({{"object":"embedding","index":{},"embedding":{}}})", i, vector);
  }

  const loader::LoadedModel& model_;
  EmbeddingsRequest request_;
  std::vector<std::string> written_;
  size_t joined_ = 0;
  std::string body_;  // the entries, as JSON
};

Result<void> embed(Exchange& exchange, EmbeddingsRequest request) {
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  CAIRN_TRY_VOID(check_embeddings(*model, request));
  engine::GenerateRequest common = embedding_request(*model, exchange.request, request.inputs.size());
  return EmbeddingRun::start(exchange, loader::shared_engine(model), std::move(common),
                             std::make_unique<EmbeddingsTask>(*model, std::move(request)));
}

}  // namespace

Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const ordered_json& body, EmbeddingShape shape) {
  RequestFields fields(context, body);
  EmbeddingsRequest request;
  request.shape = shape;
  request.model = fields.string("model", "");
  // llama.cpp's name for it.
  const bool content = fields.get("input") == nullptr && fields.get("content") != nullptr;
  request.field = content ? "content" : "input";
  read_input(fields, request);
  request.dimensions = static_cast<int32_t>(fields.integer("dimensions", 0, 1, std::numeric_limits<int32_t>::max()));
  const std::string format = fields.string("encoding_format", "float");
  request.base64 = format == "base64";
  if (!request.base64 && format != "float") fields.reject("encoding_format", "must be float or base64");
  request.truncate = fields.boolean("truncate", false);
  request.tokens_max = read_prompt_cut(fields);
  request.normalise = read_normalise(fields);
  refuse_embedding_fields(fields);
  fields.accept({"user"});
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<EmbeddingsRequest> parse_tei_embed(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  EmbeddingsRequest request;
  request.shape = EmbeddingShape::kTei;
  request.model = fields.string("model", "");
  request.field = "inputs";
  read_input(fields, request);
  request.dimensions = static_cast<int32_t>(fields.integer("dimensions", 0, 1, std::numeric_limits<int32_t>::max()));
  request.truncate = fields.boolean("truncate", false);
  request.normalise = fields.boolean("normalize", true);
  check_truncation_direction(fields);
  refuse_embedding_fields(fields);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

std::string base64_of(std::span<const float> values) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr unsigned kBits = 6;
  std::string bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned byte = 0; byte < sizeof(float); ++byte) bytes += static_cast<char>(bits >> (8 * byte));
  }
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    const size_t digits = std::min<size_t>(3, bytes.size() - i) + 1;
    for (size_t k = 0; k < 4; ++k) text += k < digits ? kDigits[group >> (kBits * (3 - k)) & 63] : '=';
  }
  return text;
}

Result<void> handle_embeddings(Exchange& exchange) {
  CAIRN_TRY(EmbeddingsRequest request, read_body(exchange, parse_embeddings, EmbeddingShape::kOpenAi));
  return embed(exchange, std::move(request));
}

Result<void> handle_native_embeddings(Exchange& exchange) {
  CAIRN_TRY(EmbeddingsRequest request, read_body(exchange, parse_embeddings, EmbeddingShape::kLlamaCpp));
  return embed(exchange, std::move(request));
}

Result<void> handle_tei_embed(Exchange& exchange) {
  CAIRN_TRY(EmbeddingsRequest request, read_body(exchange, parse_tei_embed));
  return embed(exchange, std::move(request));
}

}  // namespace cairn::api::openai
