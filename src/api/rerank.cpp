#include "api/rerank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/embedding_run.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/tenant.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template.rerank";

void read_documents(Fields& fields, std::vector<std::string>& documents) {
  const ordered_json* value = fields.get("documents");
  if (value == nullptr || !value->is_array() || value->empty()) {
    return fields.fail_field("documents", "must be an array of at least one text");
  }
  if (value->size() > kEmbedTextsMax) {
    return fields.fail_field("documents", fmt::format("has {} texts; {} is the most", value->size(), kEmbedTextsMax));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const ordered_json& document = (*value)[i];
    const auto text = document.is_object() ? document.find("text") : document.end();
    if (document.is_string()) {
      documents.push_back(document.get<std::string>());
    } else if (document.is_object() && document.size() == 1 && text != document.end() && text->is_string()) {
      documents.push_back(text->get<std::string>());
    } else {
      return fields.fail_field(fmt::format("documents[{}]", i), "must be a text or {\"text\": a text}");
    }
  }
}

/// How a model wants a query and a document together.
class PairWriter {
 public:
  static Result<PairWriter> make(const LoadedModel& model, std::string_view query) {
    PairWriter pairs(model);
    if (model.embedder == nullptr) {
      CAIRN_TRY(const std::string_view source, model.file.metadata().string_or(kTemplateKey, ""));
      if (source.empty()) {
        return fail_at("model", Code::kUnsupported, "{} has a head that ranks, but no template ({}) to use it with",
                       model.name, kTemplateKey);
      }
      pairs.template_ = source;
      pairs.query_text_ = query;
      return pairs;
    }
    CAIRN_TRY(pairs.query_, model.tokenizer->encode(query, {.add_special = true, .parse_special = false}));
    // XLM-RoBERTa closes the first text and opens the second with the same token; BERT has one between them.
    CAIRN_TRY(const std::string_view kind, model.file.metadata().string_or("tokenizer.ggml.model", ""));
    if (kind == "t5" && model.tokenizer->special().eos != kNoToken) {
      pairs.query_.push_back(model.tokenizer->special().eos);
    }
    return pairs;
  }

  /// Fills the prompt and where the document begins, cut to `tokens_max` if that is not 0.
  Result<void> write(std::string_view document, size_t tokens_max, GenerateRequest& request) const {
    if (model_->embedder == nullptr) {
      const std::string text = fill_rerank_template(template_, query_text_, document);
      CAIRN_TRY(request.prompt, model_->tokenizer->encode(text, {.add_special = false, .parse_special = true}));
      return {};
    }
    CAIRN_TRY(std::vector<TokenId> tokens,
              model_->tokenizer->encode(document, {.add_special = true, .parse_special = false}));
    const bool opened = !tokens.empty() && tokens.front() == model_->tokenizer->special().bos;
    const size_t first = opened ? 1 : 0;
    request.prompt = query_;
    request.embed->second_begin = static_cast<int32_t>(query_.size());
    request.prompt.insert(request.prompt.end(), tokens.begin() + static_cast<ptrdiff_t>(first), tokens.end());
    // The token at the end stays.
    if (tokens_max != 0 && request.prompt.size() > tokens_max) {
      if (query_.size() + 1 >= tokens_max) {
        return fail(Code::kContextLengthExceeded, "the query has {} tokens, which leaves none of {} to a document",
                    query_.size(), tokens_max);
      }
      const TokenId last = request.prompt.back();
      request.prompt.resize(tokens_max);
      request.prompt.back() = last;
    }
    return {};
  }

 private:
  explicit PairWriter(const LoadedModel& model) : model_(&model) {}

  const LoadedModel* model_;
  std::string_view template_;
  std::string query_text_;
  std::vector<TokenId> query_;
};

class RerankTask final : public EmbedTask {
 public:
  RerankTask(const LoadedModel& model, PairWriter pairs, RerankRequest request)
      : model_(model), pairs_(std::move(pairs)), request_(std::move(request)), scores_(request_.documents.size()) {}

  size_t texts() const override { return request_.documents.size(); }
  std::string path(size_t i) const override { return fmt::format("documents[{}]", i); }

  Result<void> prepare(size_t i, GenerateRequest& request) override {
    const size_t most = request_.truncate ? static_cast<size_t>(model_.engine->context_tokens()) : 0;
    const Result<void> written = pairs_.write(request_.documents[i], most, request);
    if (!written) return fail_at(path(i), written.error().code, "{}: {}", path(i), written.error().message);
    return {};
  }

  Result<void> take(size_t i, std::vector<float> embedding) override {
    const float logit = embedding.at(0);
    if (std::isnan(logit)) return fail(Code::kInternal, "the model gave no usable score for {}", path(i));
    scores_[i] = {1 / (1 + std::exp(-double{logit})), i};
    return {};
  }

  std::string body(int64_t tokens) override {
    // The likeliest first, and of equal ones the first.
    std::ranges::stable_sort(scores_, std::ranges::greater(), &Score::relevance);
    if (request_.top_n > 0 && request_.top_n < scores_.size()) scores_.resize(request_.top_n);
    ordered_json answer = {{"object", "list"}, {"model", model_.name}, {"results", ordered_json::array()}};
    for (const Score& score : scores_) {
      ordered_json result = {{"index", score.document}, {"relevance_score", score.relevance}};
      if (request_.return_documents) result["document"] = {{"text", std::move(request_.documents[score.document])}};
      answer["results"].push_back(std::move(result));
    }
    answer["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
    return dump(answer);
  }

 private:
  struct Score {
    double relevance = 0;
    size_t document = 0;
  };
  const LoadedModel& model_;
  PairWriter pairs_;
  RerankRequest request_;
  std::vector<Score> scores_;
};

Result<void> run(Service& service, const net::HttpRequest& http, const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(RerankRequest request, parse_rerank(body));
  CAIRN_TRY(const LoadedModel* model, service.registry().find(request.model));
  if (!model->embedding.ranks) {
    return fail_at("model", Code::kUnsupported,
                   "{} is no reranker: its file has no head that ranks (cls.output.weight)", model->name);
  }
  if (request.truncate && model->embedder == nullptr) {
    return fail_at("truncate", Code::kUnsupported, "{} gets its texts in a template, which cannot be cut: shorten them",
                   model->name);
  }
  CAIRN_TRY(PairWriter pairs, PairWriter::make(*model, request.query));
  GenerateRequest common;
  common.tenant = tenant_of(http);
  common.embed = EmbedWish{.pooling = Pooling::kRank};
  common.priority = request.documents.size() > kEmbedInteractiveTexts ? Priority::kBatch : Priority::kInteractive;
  EmbeddingRun::start(*model->engine, std::move(common),
                      std::make_unique<RerankTask>(*model, std::move(pairs), std::move(request)), response);
  return {};
}

}  // namespace

Result<RerankRequest> parse_rerank(const ordered_json& body) {
  Fields fields(body);
  RerankRequest request;
  request.model = fields.string("model", "");
  request.query = fields.string("query", "");
  if (request.query.empty()) fields.fail_field("query", "must be a text");
  read_documents(fields, request.documents);
  request.top_n = static_cast<size_t>(fields.integer("top_n", 0, 1, std::numeric_limits<int32_t>::max()));
  request.return_documents = fields.boolean("return_documents", false);
  request.truncate = fields.boolean("truncate", false);
  fields.accept({"user"});
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

std::string fill_rerank_template(std::string_view source, std::string_view query, std::string_view document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  std::string text;
  while (!source.empty()) {
    const size_t brace = std::min(source.find('{'), source.size());
    text += source.substr(0, brace);
    source.remove_prefix(brace);
    if (source.starts_with(kQuery)) {
      text += query;
      source.remove_prefix(kQuery.size());
    } else if (source.starts_with(kDocument)) {
      text += document;
      source.remove_prefix(kDocument.size());
    } else if (!source.empty()) {
      text += source.front();
      source.remove_prefix(1);
    }
  }
  return text;
}

void handle_rerank(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = run(service, request, response); !done) send_error(*response, done.error());
}

}  // namespace cairn::api
