#include "loader/loaded_model.h"

#include "loader/draft.h"
#include "loader/model_files.h"
#include "model/embedder.h"
#include "model/runner.h"
#include "model/weights/pack_cache.h"

namespace cairn::loader {

LoadedModel::~LoadedModel() = default;

chat::PromptContext LoadedModel::prompt_context() const {
  return {name, *tokenizer, chat_template, output_format, engine->context_tokens()};
}

ModelFacts LoadedModel::facts() const {
  ModelFacts facts = model_facts(*tokenizer, chat_template, template_source);
  facts.drafts = draft != nullptr;
  return facts;
}

chat::ChatModel LoadedModel::chat_model() const {
  return {prompt_context(), template_source, template_defaults, *constraints, fingerprint};
}

std::shared_ptr<engine::Engine> shared_engine(const SharedModel& model) { return {model, model->engine.get()}; }

}  // namespace cairn::loader
