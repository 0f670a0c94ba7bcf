#include "api/openai/embeddings.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/embedding/embedding_run.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

/// A string, or an array of ids of which the first is one.
bool read_one(const ordered_json& value, EmbeddingsRequest& request) {
  if (value.is_string()) {
    request.inputs.emplace_back(value.get<std::string>());
    return true;
  }
  if (!value.is_array() || !std::ranges::all_of(value, is_token_id)) return false;
  std::vector<TokenId> tokens;
  for (const auto& id : value) tokens.push_back(TokenId{id.get<int32_t>()});
  request.inputs.emplace_back(std::move(tokens));
  return true;
}

void read_input(RequestFields& fields, EmbeddingsRequest& request) {
  const ordered_json* value = fields.get("input");
  if (value == nullptr) return fields.reject("input", "is missing");
  const bool one = value->is_string() || (value->is_array() && !value->empty() && value->front().is_number());
  if (one) {
    if (!read_one(*value, request)) fields.reject("input", "must hold token ids only, or texts only");
    return;
  }
  if (!value->is_array() || value->empty()) {
    return fields.reject("input", "must be a text, token ids, or an array of at least one of them");
  }
  if (value->size() > kEmbedTextsMax) {
    return fields.reject("input", fmt::format("has {} texts; {} is the most", value->size(), kEmbedTextsMax));
  }
  request.is_array = true;
  for (size_t i = 0; i < value->size(); ++i) {
    if (read_one((*value)[i], request)) continue;
    return fields.reject(fmt::format("input[{}]", i), "must be a text or an array of token ids");
  }
}

class EmbeddingsTask final : public EmbedTask {
 public:
  EmbeddingsTask(const LoadedModel& model, EmbeddingsRequest request)
      : model_(model), request_(std::move(request)), written_(request_.inputs.size()) {}

  size_t texts() const override { return request_.inputs.size(); }
  std::string path(size_t i) const override { return request_.is_array ? fmt::format("input[{}]", i) : "input"; }

  Result<void> prepare(size_t i, GenerateRequest& request) override {
    CAIRN_TRY(request.prompt, embedding_prompt(model_, std::move(request_.inputs[i]), request_.truncate, path(i)));
    return {};
  }

  Result<void> take(size_t i, std::vector<float> embedding) override {
    CAIRN_TRY(const std::vector<float> values, normalised(std::move(embedding), request_.dimensions));
    std::string& text = written_[i];
    text = fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
    text += request_.base64 ? '"' + base64_of(values) + '"' : vector_json(values);
    text += '}';
    // What is in order joins the body at once, so that its end has little left to do.
    for (; joined_ < written_.size() && !written_[joined_].empty(); ++joined_) {
      body_ += std::exchange(written_[joined_], {});
    }
    return {};
  }

  std::string body(int64_t tokens) override {
    body_ += fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", dump(model_.name),
                         tokens, tokens);
    return std::move(body_);
  }

 private:
  const LoadedModel& model_;
  EmbeddingsRequest request_;
  std::vector<std::string> written_;
  size_t joined_ = 0;
  std::string body_ = R"({"object":"list","data":[)";
};

Result<void> run(Service& service, const net::HttpRequest& http, const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(EmbeddingsRequest request, parse_embeddings(body));
  CAIRN_TRY(const LoadedModel* model, service.registry().find(request.model));
  CAIRN_TRY_VOID(check_embeddings(*model, request));
  GenerateRequest common = embedding_request(*model, http, request.inputs.size());
  EmbeddingRun::start(*model->engine, std::move(common), std::make_unique<EmbeddingsTask>(*model, std::move(request)),
                      response, ByteShare(service.bytes()));
  return {};
}

}  // namespace

Result<EmbeddingsRequest> parse_embeddings(const ordered_json& body) {
  RequestFields fields(body);
  EmbeddingsRequest request;
  request.model = fields.string("model", "");
  read_input(fields, request);
  request.dimensions = static_cast<int32_t>(fields.integer("dimensions", 0, 1, std::numeric_limits<int32_t>::max()));
  const std::string format = fields.string("encoding_format", "float");
  request.base64 = format == "base64";
  if (!request.base64 && format != "float") fields.reject("encoding_format", "must be float or base64");
  request.truncate = fields.boolean("truncate", false);
  fields.accept({"user"});
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

void handle_embeddings(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = run(service, request, response); !done) send_error(*response, done.error());
}

}  // namespace cairn::api::openai
