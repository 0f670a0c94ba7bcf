#include "api/embedding/rerank.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/embedding/embedding_run.h"
#include "api/embedding/embeddings.h"
#include "api/http/tenant.h"
#include "api/params/prompt_cut.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/system/random_id.h"
#include "chat/pair_prompts.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

/// What Cohere's clients look for.
constexpr std::string_view kMeta = R"({"api_version":{"version":"2"},"billed_units":{"search_units":1}})";

/// Documents of Cohere's clients have keys besides their text, which come back with return_documents. Texts of TEI have
/// none.
void read_documents(RequestFields& fields, std::string_view name, RerankRequest& request) {
  const ordered_json* value = fields.get(name);
  if (value == nullptr || !value->is_array() || value->empty()) {
    return fields.reject(name, "must be an array of at least one text");
  }
  if (value->size() > kEmbedTextsMax) {
    return fields.reject(name, fmt::format("has {} texts; {} is the most", value->size(), kEmbedTextsMax));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const ordered_json& document = (*value)[i];
    const auto text = document.is_object() ? document.find("text") : document.end();
    if (document.is_string()) {
      request.documents.push_back(document.get<std::string>());
    } else if (text != document.end() && text->is_string()) {
      request.documents.push_back(text->get<std::string>());
      if (document.size() == 1) continue;
      if (request.tei) fields.tell(fmt::format("{}[{}]", name, i), "has keys besides its text, which are left out");
      if (request.tei || !request.return_documents) continue;
      request.document_keys.resize(value->size());
      ordered_json keys = document;
      keys.erase("text");
      request.document_keys[i] = dump(keys);
    } else {
      return fields.reject(fmt::format("{}[{}]", name, i), "must be a text or {\"text\": a text, ...}");
    }
  }
}

class RerankTask final : public EmbedTask {
 public:
  RerankTask(const loader::LoadedModel& model, chat::PairPrompts pairs, RerankRequest request)
      : model_(model), pairs_(std::move(pairs)), request_(std::move(request)), scores_(request_.documents.size()) {}

  size_t texts() const override { return request_.documents.size(); }
  std::string path(size_t i) const override { return fmt::format("{}[{}]", request_.tei ? "texts" : "documents", i); }

  // The document is written down, too, so that the end has little left to do.
  Result<void> prepare(size_t i, RequestContext& context, engine::GenerateRequest& request) override {
    const int32_t context_tokens = model_.engine->context_tokens();
    if (pairs_.query_tokens() + 1 >= static_cast<size_t>(context_tokens)) return std::unexpected(query_too_long());
    const auto most = text_tokens_kept(request_.truncate, request_.tokens_max, context_tokens);
    Result<chat::PairPrompt> pair = pairs_.with(request_.documents[i], most.value_or(0), request_.document_tokens_max);
    if (!pair) return fail_at(path(i), pair.error().code, "{}: {}", path(i), pair.error().message);
    if (pair->left_out > 0) {
      context.note_ignored(path(i), fmt::format("{} and the query have {} tokens, of which the first {} are ranked",
                                                path(i), pair->tokens.size() + pair->left_out, pair->tokens.size()));
    }
    request.prompt = std::move(pair->tokens);
    request.embed = engine::EmbeddingOptions{.pooling = model::Pooling::kRank, .second_begin = pair->second_begin};
    std::string& document = request_.documents[i];
    document = request_.return_documents ? dump(document) : std::string();
    return {};
  }

  bool can_cut() const override { return !pairs_.by_template(); }

  Result<void> take(size_t i, std::vector<float> embedding) override {
    const float logit = embedding.at(0);
    if (std::isnan(logit)) return fail(Code::kInternal, "the model gave no usable score for {}", path(i));
    scores_[i] = {request_.raw_scores ? double{logit} : 1 / (1 + std::exp(-double{logit})), i};
    return {};
  }

  std::string body(int64_t tokens) override {
    // The most likely first, and of equal ones the first.
    std::ranges::stable_sort(scores_, std::ranges::greater(), &Score::relevance);
    if (request_.top_n > 0 && request_.top_n < scores_.size()) scores_.resize(request_.top_n);
    std::string results = "[";
    for (const Score& score : scores_) {
      if (results.back() != '[') results += ',';
      results += fmt::format(R"({{"index":{},"{}":{})", score.document, request_.tei ? "score" : "relevance_score",
                             dump(score.relevance));
      if (request_.return_documents) {
        const std::string& document = request_.documents[score.document];
        results +=
            request_.tei ? R"(,"text":)" + document : R"(,"document":{"text":)" + document + keys_of(score.document);
      }
      results += '}';
    }
    results += ']';
    if (request_.tei) return results;
    return fmt::format(R"({{"id":{},"object":"list","model":{},"results":{},"meta":{},)"
                       R"("usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                       dump(random_id("rerank-")), dump(model_.name), results, kMeta, tokens, tokens);
  }

 private:
  Error query_too_long() const {
    const auto tokens = static_cast<int64_t>(pairs_.query_tokens()), context = int64_t{model_.engine->context_tokens()};
    Error error{
        Code::kContextLengthExceeded,
        fmt::format("query has {} tokens, which leaves no document room in the model's context of {}: shorten it",
                    tokens, context),
        "query"};
    error.overflow = {.prompt_tokens = tokens, .context_tokens = context};
    return error;
  }

  /// The end of a document that has a text: what else it has.
  std::string keys_of(size_t document) const {
    const bool has_keys = document < request_.document_keys.size() && !request_.document_keys[document].empty();
    return has_keys ? "," + request_.document_keys[document].substr(1) : "}";
  }

  struct Score {
    double relevance = 0;
    size_t document = 0;
  };
  const loader::LoadedModel& model_;
  chat::PairPrompts pairs_;
  RerankRequest request_;
  std::vector<Score> scores_;
};

/// What the outputs of a file's head stand for: "positive, negative"; empty if it does not say.
Result<std::string> label_names(const gguf::Metadata& metadata) {
  CAIRN_TRY(const std::string_view architecture, metadata.string_or("general.architecture", ""));
  const std::string key = fmt::format("{}.classifier.output_labels", architecture);
  if (!metadata.contains(key)) return std::string();
  CAIRN_TRY(const auto names, metadata.strings(key));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The query is read again for every document.
Result<void> check_size(const RerankRequest& request) {
  size_t bytes = request.query.size() * request.documents.size();
  for (const std::string& document : request.documents) bytes += document.size();
  if (bytes <= kRerankBytesMax) return {};
  return fail_at(request.tei ? "texts" : "documents", Code::kTooLarge,
                 "the documents, each with the query, have {} bytes; {} is the most: send fewer of them at once", bytes,
                 kRerankBytesMax);
}

}  // namespace

Result<RerankRequest> parse_rerank(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  RerankRequest request;
  request.model = fields.string("model", "");
  request.query = fields.string("query", "");
  if (request.query.empty()) fields.reject("query", "must be a text");
  request.tei = fields.get("documents") == nullptr && fields.get("texts") != nullptr;
  request.top_n = static_cast<size_t>(fields.integer("top_n", 0, 1, std::numeric_limits<int32_t>::max()));
  request.return_documents = fields.boolean("return_documents", false);
  const bool return_text = fields.boolean("return_text", false);
  const bool raw_scores = fields.boolean("raw_scores", false);
  if (request.tei) {
    request.return_documents |= return_text;
    request.raw_scores = raw_scores;
  }
  read_documents(fields, request.tei ? "texts" : "documents", request);
  request.document_tokens_max =
      static_cast<size_t>(fields.integer("max_tokens_per_doc", 0, 1, std::numeric_limits<int32_t>::max()));
  request.truncate = fields.boolean("truncate", false);
  request.tokens_max = read_prompt_cut(fields);
  check_truncation_direction(fields);
  for (const auto* name : {"instruction", "instruct"})
    fields.only_empty(name, "put what the model wants in front of the query into the query");
  for (const auto* name : {"activation", "use_activation"})
    fields.only(name, true,
                "scores are from 0 to 1; with texts in the place of documents, raw_scores gives the model's own");
  fields.accept({"user", "priority", "max_chunks_per_doc"});
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<void> handle_rerank(Exchange& exchange) {
  CAIRN_TRY(RerankRequest request, read_body(exchange, parse_rerank));
  CAIRN_TRY(const loader::SharedModel model, exchange.service.find_model(exchange.context, request.model));
  if (!model->embedding.ranks) {
    CAIRN_TRY(const std::string labels, label_names(model->file.metadata()));
    return fail_at("model", Code::kUnsupported,
                   "{} is no reranker: its file has no head of one score or of yes and no{}", model->name,
                   labels.empty() ? " (cls.output.weight)" : ", but one for " + labels);
  }
  CAIRN_TRY_VOID(check_size(request));
  CAIRN_TRY(chat::PairPrompts pairs, chat::PairPrompts::make(model->file.metadata(), *model->tokenizer, request.query));
  if (model->embedder == nullptr && !pairs.by_template()) {
    return fail_at("model", Code::kUnsupported, "{} has a head that ranks, but no template ({}) to use it with",
                   model->name, chat::kRerankTemplateKey);
  }
  if ((request.truncate || request.tokens_max) && pairs.by_template()) {
    return fail_at(request.truncate ? "truncate" : "truncate_prompt_tokens", Code::kUnsupported,
                   "{} gets its texts in a template, which cannot be cut: shorten them, or use max_tokens_per_doc",
                   model->name);
  }
  engine::GenerateRequest common;
  common.priority =
      request.documents.size() > kEmbedInteractiveTexts ? engine::Priority::kBatch : engine::Priority::kInteractive;
  name_owner(exchange.request, common);
  return EmbeddingRun::start(exchange, loader::shared_engine(model), std::move(common),
                             std::make_unique<RerankTask>(*model, std::move(pairs), std::move(request)));
}

}  // namespace cairn::api
