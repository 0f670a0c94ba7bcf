#include "model.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "api/serialization/json_text.h"

namespace cairn::library {

Model::Model(const Settings& settings) : process_(::getpid()), service_(registry_, settings.service_options()) {}

Model::~Model() {
  loaded_.reset();
  service_.stop();
  registry_.clear();
}

Result<std::shared_ptr<Model>> Model::open(const std::string& model, const std::string& options) {
  CAIRN_TRY(const Settings settings, Settings::read(model, options));
  auto opened = std::make_shared<Model>(settings);
  CAIRN_TRY(std::unique_ptr<loader::LoadedModel> loaded, settings.model.load.load());
  warn_without_template(*loaded);
  CAIRN_TRY(opened->loaded_, opened->registry_.add(std::move(loaded)));
  opened->service_.set_started();
  return opened;
}

bool Model::is_of_this_process() const { return process_ == ::getpid(); }

Result<void> Model::check_process() const {
  if (is_of_this_process()) return {};
  return fail(Code::kUnavailable,
              "this model was opened by the process {}, and its threads are not here, in a child that fork() has made: "
              "open the model after fork(), or let the parent answer",
              process_);
}

api::RequestContext Model::context() const {
  api::RequestContext context({.strict_fields = service_.options().strict_fields});
  service_.answer_by(context, loaded_, api::Protocol::kOpenAi);
  return context;
}

std::string Model::info() const {
  const loader::LoadedModel& model = *loaded_;
  const bool generates = model.runner != nullptr;
  const bool pools = model.embedding.dimensions > 0 && model.embedding.pooling != model::Pooling::kRank;
  return api::dump({{"name", model.name},
                    {"file", model.file_name},
                    {"architecture", model.architecture},
                    {"quantisation", model.quantisation},
                    {"parameters", model.parameters},
                    {"file_bytes", model.file_bytes},
                    {"context_tokens", model.engine->context_tokens()},
                    {"vocabulary", model.tokenizer->size()},
                    {"embedding_dimensions", model.embedding.dimensions},
                    {"device", model.device.text()},
                    {"generates", generates},
                    {"embeds", pools},
                    {"ranks", model.embedding.ranks}});
}

}  // namespace cairn::library
