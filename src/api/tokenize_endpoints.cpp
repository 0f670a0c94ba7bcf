#include "api/tokenize_endpoints.h"

#include <algorithm>
#include <iterator>

#include "api/chat/messages.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/text/utf8.h"
#include "chat/answer/prompt.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

// Bytes of a token's place in the answer, without its text.
constexpr int64_t kIdBytes = 12;
constexpr int64_t kPieceBytes = 32;
// A byte as JSON text, at the worst: \u0001.
constexpr int64_t kEscapedByteBytes = 6;
// What has no white space is cut into tokens as a whole: for each byte at the worst a Symbol (28) and a place in the
// queue (8), three times over while their arrays grow.
constexpr int64_t kSymbolBytes = 3 * (28 + 8);

/// A text, or the numbers of bytes that are none.
void append_piece(std::string& body, std::string_view piece) {
  if (utf8_valid(piece)) {
    body += dump(piece);
    return;
  }
  body += '[';
  for (size_t i = 0; i < piece.size(); ++i)
    fmt::format_to(std::back_inserter(body), "{}{}", i == 0 ? "" : ",", static_cast<unsigned char>(piece[i]));
  body += ']';
}

/// Bytes of the longest stretch without white space.
int64_t longest_stretch(std::string_view text) {
  size_t longest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n\t\r", begin), text.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return static_cast<int64_t>(longest);
}

/// Gives the share back before the body is sent: what waits to be sent, net/ counts.
Result<void> send_counted(Exchange& exchange, ByteShare& share, std::string body) {
  share.shrink_to(0);
  return send_json_text(exchange, std::move(body));
}

}  // namespace

Result<TokenizeRequest> parse_tokenize(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  TokenizeRequest request;
  request.model = fields.string("model", "");
  const bool has_content = fields.get("content") != nullptr;
  if (!has_content && fields.get("prompt") == nullptr) fields.reject("content", "is missing");
  const std::string prompt = fields.string("prompt", "");
  request.text = has_content ? fields.string("content", "") : prompt;
  request.options.add_special = fields.boolean("add_special", fields.boolean("add_special_tokens", false));
  request.options.parse_special = fields.boolean("parse_special", true);
  request.with_pieces = fields.boolean("with_pieces", false);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<DetokenizeRequest> parse_detokenize(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  DetokenizeRequest request;
  request.model = fields.string("model", "");
  const ordered_json* ids = fields.get("tokens");
  if (ids == nullptr || !ids->is_array()) fields.reject("tokens", "must be an array of token ids");
  CAIRN_TRY_VOID(fields.finish());
  for (const auto& id : *ids) {
    if (!is_token_id(id)) return fail_at("tokens", Code::kInvalidArgument, "tokens must hold token ids only");
    request.tokens.push_back(TokenId{id.get<int32_t>()});
  }
  return request;
}

Result<ChatRequest> parse_apply_template(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  ChatRequest request;
  request.model = fields.string("model", "");
  request.input = read_chat_input(fields, request.prefill);
  read_reasoning(fields, request.reasoning);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

/// The answer is written as text at once: as a document, a token would take twenty times as much.
Result<void> handle_tokenize(Exchange& exchange) {
  CAIRN_TRY(const TokenizeRequest request, read_body(exchange, parse_tokenize));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  ByteShare share(exchange.service.bytes());
  if (!share.grow_to(kSymbolBytes * longest_stretch(request.text))) return std::unexpected(no_request_bytes());
  CAIRN_TRY(const auto tokens, model->tokenizer->encode(request.text, request.options));
  int64_t bytes = kIdBytes * static_cast<int64_t>(tokens.size() + 8);
  if (request.with_pieces) {
    bytes += kPieceBytes * static_cast<int64_t>(tokens.size());
    for (const TokenId token : tokens)
      bytes += kEscapedByteBytes * static_cast<int64_t>(model->tokenizer->piece(token, true).size());
  }
  if (!share.grow_to(bytes)) return std::unexpected(no_request_bytes());
  std::string body = R"({"tokens":[)";
  body.reserve(static_cast<size_t>(bytes));
  for (const TokenId token : tokens) {
    if (body.back() != '[') body += ',';
    if (!request.with_pieces) {
      fmt::format_to(std::back_inserter(body), "{}", index(token));
      continue;
    }
    fmt::format_to(std::back_inserter(body), R"({{"id":{},"piece":)", index(token));
    append_piece(body, model->tokenizer->piece(token, true));
    body += '}';
  }
  body += fmt::format(R"(],"count":{},"max_model_len":{}}})", tokens.size(), model->engine->context_tokens());
  return send_counted(exchange, share, std::move(body));
}

Result<void> handle_detokenize(Exchange& exchange) {
  CAIRN_TRY(const DetokenizeRequest request, read_body(exchange, parse_detokenize));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  int64_t bytes = 0;
  for (const TokenId token : request.tokens) {
    if (index(token) >= model->tokenizer->size()) {
      return fail_at("tokens", Code::kInvalidArgument, "token {} is out of range: the vocabulary has {} tokens",
                     index(token), model->tokenizer->size());
    }
    bytes += static_cast<int64_t>(model->tokenizer->piece(token, true).size());
  }
  // Decoded, without what is no UTF-8, as a value, as JSON, and as JSON twice in the answer.
  constexpr int64_t kTexts = 4;
  ByteShare share(exchange.service.bytes());
  if (!share.grow_to((kTexts + 3 * kEscapedByteBytes) * bytes)) return std::unexpected(no_request_bytes());
  // vLLM's clients look for the text as "prompt".
  const std::string text = dump(utf8_replace_invalid(model->tokenizer->decode(request.tokens, true)));
  return send_counted(exchange, share, fmt::format(R"({{"content":{},"prompt":{}}})", text, text));
}

Result<void> handle_apply_template(Exchange& exchange) {
  CAIRN_TRY(ChatRequest request, read_body(exchange, parse_apply_template));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  CAIRN_TRY(std::string text, chat::answer_prompt_text(model->chat_model(), request));
  ByteShare share(exchange.service.bytes());
  if (!share.grow_to((1 + kEscapedByteBytes) * static_cast<int64_t>(text.size())))
    return std::unexpected(no_request_bytes());
  return send_counted(exchange, share, dump({{"prompt", std::move(text)}}));
}

}  // namespace cairn::api
