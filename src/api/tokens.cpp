#include "api/tokens.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/openai/request.h"
#include "api/prompt_tokens.h"
#include "base/utf8.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

ordered_json pieces(const Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  ordered_json list = ordered_json::array();
  for (const TokenId token : tokens) {
    const std::string_view piece = tokenizer.piece(token, true);
    ordered_json shown;
    if (utf8_valid(piece)) {
      shown = std::string(piece);
    } else {
      shown = ordered_json::array();
      for (const char c : piece) shown.push_back(static_cast<unsigned char>(c));
    }
    list.push_back({{"id", index(token)}, {"piece", std::move(shown)}});
  }
  return list;
}

Result<ordered_json> tokenize(const Registry& registry, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const TokenizeRequest request, parse_tokenize(body));
  CAIRN_TRY(const LoadedModel* model, registry.find(request.model));
  CAIRN_TRY(const auto tokens, model->tokenizer->encode(request.text, request.options));
  ordered_json ids = ordered_json::array();
  for (const TokenId token : tokens) ids.push_back(index(token));
  ordered_json reply = {{"tokens", request.with_pieces ? pieces(*model->tokenizer, tokens) : std::move(ids)}};
  reply["count"] = tokens.size();
  reply["max_model_len"] = model->engine->context_tokens();
  return reply;
}

Result<ordered_json> detokenize(const Registry& registry, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const DetokenizeRequest request, parse_detokenize(body));
  CAIRN_TRY(const LoadedModel* model, registry.find(request.model));
  for (const TokenId token : request.tokens) {
    if (index(token) >= model->tokenizer->size()) {
      return fail_at("tokens", Code::kInvalidArgument, "token {} is out of range: the vocabulary has {} tokens",
                     index(token), model->tokenizer->size());
    }
  }
  return ordered_json{{"content", utf8_replace_invalid(model->tokenizer->decode(request.tokens, true))}};
}

Result<ordered_json> apply_template(const Registry& registry, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const TemplateRequest request, parse_apply_template(body));
  CAIRN_TRY(const LoadedModel* model, registry.find(request.model));
  CAIRN_TRY(std::string text, render_chat(*model, request.input));
  return ordered_json{{"prompt", std::move(text)}};
}

void reply(net::HttpResponse& response, const Result<ordered_json>& result) {
  if (result) {
    send_json(response, *result);
  } else {
    send_error(response, result.error());
  }
}

}  // namespace

Result<TokenizeRequest> parse_tokenize(const ordered_json& body) {
  Fields fields(body);
  TokenizeRequest request;
  request.model = fields.string("model", "");
  const bool has_content = fields.get("content") != nullptr;
  if (!has_content && fields.get("prompt") == nullptr) fields.fail_field("content", "is missing");
  const std::string prompt = fields.string("prompt", "");
  request.text = has_content ? fields.string("content", "") : prompt;
  request.options.add_special = fields.boolean("add_special", fields.boolean("add_special_tokens", false));
  request.options.parse_special = fields.boolean("parse_special", true);
  request.with_pieces = fields.boolean("with_pieces", false);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<DetokenizeRequest> parse_detokenize(const ordered_json& body) {
  Fields fields(body);
  DetokenizeRequest request;
  request.model = fields.string("model", "");
  const ordered_json* ids = fields.get("tokens");
  if (ids == nullptr || !ids->is_array()) fields.fail_field("tokens", "must be an array of token ids");
  CAIRN_TRY_VOID(fields.finish());
  for (const auto& id : *ids) {
    constexpr double kIdMax = std::numeric_limits<int32_t>::max();
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > kIdMax)
      return fail_at("tokens", Code::kInvalidArgument, "tokens must hold token ids only");
    request.tokens.push_back(TokenId{id.get<int32_t>()});
  }
  return request;
}

Result<TemplateRequest> parse_apply_template(const ordered_json& body) {
  Fields fields(body);
  TemplateRequest request;
  request.model = fields.string("model", "");
  request.input = openai::read_chat_input(fields);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

void handle_tokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response) {
  reply(response, tokenize(registry, request));
}
void handle_detokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response) {
  reply(response, detokenize(registry, request));
}
void handle_apply_template(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response) {
  reply(response, apply_template(registry, request));
}

}  // namespace cairn::api
