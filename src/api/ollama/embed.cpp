#include "api/ollama/embed.h"

#include <chrono>
#include <limits>
#include <utility>

#include "api/embedding/embedding_run.h"
#include "api/ollama/models.h"
#include "api/ollama/request.h"
#include "api/params/prompt_cut.h"
#include "api/serialization/json_text.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

// Options say how a model is loaded, and how it would write: nothing about a vector.
void accept_options(RequestFields& fields) {
  (void)fields.object("options");
  check_keep_alive(fields);
  fields.only("normalize", true, "use /v1/embeddings");
  refuse_embedding_fields(fields);
}

// A single empty text asks for nothing: the client wants the model loaded. In an array each has a vector.
void add_single_text(EmbeddingsRequest& request, std::string text) {
  if (!text.empty()) request.inputs.emplace_back(std::move(text));
}

/// What an empty text has for a prompt: the tokens that the model puts around every text, or else its beginning or end.
Result<std::vector<TokenId>> empty_text_prompt(const loader::LoadedModel& model) {
  CAIRN_TRY(auto tokens, model.tokenizer->encode("", {.add_special = true}));
  const tokenizer::SpecialTokens& special = model.tokenizer->special();
  if (tokens.empty() && special.bos != kNoToken) tokens.push_back(special.bos);
  if (tokens.empty() && special.eos != kNoToken) tokens.push_back(special.eos);
  if (tokens.empty()) return model.tokenizer->encode(" ", {});
  return tokens;
}

class OllamaEmbedTask final : public EmbedTask {
 public:
  OllamaEmbedTask(const loader::LoadedModel& model, EmbeddingsRequest request, bool elder)
      : model_(model), request_(std::move(request)), elder_(elder), vectors_(request_.inputs.size()) {}

  size_t texts() const override { return request_.inputs.size(); }
  std::string path(size_t i) const override { return request_.path(i); }
  Result<void> prepare(size_t i, RequestContext& context, engine::GenerateRequest& request) override {
    EmbeddingInput& input = request_.inputs[i];
    const auto* text = std::get_if<std::string>(&input);
    if (text != nullptr && text->empty()) {
      CAIRN_TRY(request.prompt, empty_text_prompt(model_));
    } else {
      const auto most = text_tokens_kept(request_.truncate, std::nullopt, model_.engine->context_tokens());
      CAIRN_TRY(request.prompt, embedding_prompt(model_, std::move(input), most, path(i), context));
    }
    return {};
  }
  Result<void> take(size_t i, std::vector<float> embedding) override {
    if (!elder_) {
      CAIRN_TRY(embedding, normalised(std::move(embedding), request_.dimensions));
    }
    vectors_[i] = vector_json(embedding);
    return {};
  }
  std::string body(int64_t tokens) override {
    if (elder_) return fmt::format(R"({{"embedding":{}}})", vectors_.empty() ? "[]" : vectors_.front());
    std::string all;
    for (std::string& vector : vectors_) {
      all += all.empty() ? "" : ",";
      all += std::exchange(vector, {});
    }
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begun_;
    return fmt::format(
        R"({{"model":{},"embeddings":[{}],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})",
        dump(request_.model), all, time.count(), tokens);
  }

 private:
  const loader::LoadedModel& model_;
  EmbeddingsRequest request_;
  bool elder_;
  std::vector<std::string> vectors_;  // as JSON
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

Result<void> embed(Exchange& exchange, EmbeddingsRequest request, bool elder) {
  CAIRN_TRY(const loader::SharedModel model, find_model(exchange, request.model));
  CAIRN_TRY_VOID(check_embeddings(*model, request));
  request.model = shown_name(exchange, request.model, *model);
  engine::GenerateRequest common = embedding_request(*model, exchange.request, request.inputs.size());
  auto task = std::make_unique<OllamaEmbedTask>(*model, std::move(request), elder);
  if (task->texts() == 0) return send_json_text(exchange, task->body(0));
  return EmbeddingRun::start(exchange, loader::shared_engine(model), std::move(common), std::move(task));
}

}  // namespace

Result<EmbeddingsRequest> parse_embed(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  EmbeddingsRequest request;
  request.model = fields.string("model", "");
  request.dimensions = static_cast<int32_t>(fields.integer("dimensions", 0, 1, std::numeric_limits<int32_t>::max()));
  request.truncate = fields.boolean("truncate", true);
  accept_options(fields);
  const ordered_json* input = fields.get("input");
  if (input == nullptr) {
    fields.reject("input", "is missing");
  } else if (input->is_string()) {
    add_single_text(request, input->get<std::string>());
  } else if (!input->is_array() || input->size() > kEmbedTextsMax) {
    fields.reject("input", fmt::format("must be a text, or an array of at most {} texts", kEmbedTextsMax));
  } else {
    for (size_t i = 0; i < input->size() && !fields.failed(); ++i) {
      if ((*input)[i].is_string()) {
        request.inputs.emplace_back((*input)[i].get<std::string>());
      } else {
        fields.reject(fmt::format("input[{}]", i), "must be a text");
      }
    }
    request.is_array = true;
  }
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  EmbeddingsRequest request;
  request.model = fields.string("model", "");
  request.truncate = fields.boolean("truncate", true);
  request.field = "prompt";
  add_single_text(request, fields.string("prompt", ""));
  accept_options(fields);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<void> handle_embed(Exchange& exchange) {
  CAIRN_TRY(EmbeddingsRequest request, read_body(exchange, parse_embed));
  return embed(exchange, std::move(request), false);
}

Result<void> handle_embeddings(Exchange& exchange) {
  CAIRN_TRY(EmbeddingsRequest request, read_body(exchange, parse_embeddings));
  return embed(exchange, std::move(request), true);
}

}  // namespace cairn::api::ollama
