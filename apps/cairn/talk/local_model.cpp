#include "talk/local_model.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/text/bytes_text.h"
#include "catalog_flags.h"
#include "chat/answer/plan.h"
#include "chat/answer/reader.h"
#include "grammar/grammar_source.h"
#include "loader/catalog/description.h"
#include "loader/model_load.h"
#include "output.h"
#include "table_text.h"
#include "talk/status_line.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

constexpr int kPercent = 100;

/// Loads the model, and says meanwhile how much of it is there.
Result<std::unique_ptr<loader::LoadedModel>> load_shown(const LoadFlags& flags) {
  CAIRN_TRY(loader::LoadOptions options, flags.load_options());
  std::atomic<int64_t> loaded = 0;
  std::atomic<int64_t> total = 0;
  options.model.loaded_bytes = &loaded;
  const std::string name = options.name.empty() ? loader::model_name_of(flags.model) : options.name;
  const StatusLine status([&] {
    const int64_t all = total;
    if (all == 0) return fmt::format("opening {}", name);
    return fmt::format("loading {}, {} %", name, std::min<int64_t>(kPercent, loaded * kPercent / all));
  });
  CAIRN_TRY(loader::ModelLoad opened, loader::ModelLoad::open(flags.model, options));
  CAIRN_TRY(const loader::MemoryPlan* plan, opened.plan(std::numeric_limits<int64_t>::max()));
  int64_t bytes = 0;
  for (const loader::StagePlan& stage : plan->stages) bytes += stage.weight_bytes;
  total = bytes;
  return std::move(opened).load();
}

/// Flags that are about one model's file.
void forget_model_flags(LoadFlags& load) {
  if (!load.chat_template_file.empty() || !load.options.draft_model.empty() || !load.options.lora.empty() ||
      !load.options.model.control_vectors.file.empty())
    log_warning("--chat-template, --draft, --lora and --steer were for the first model, and are not used from now on");
  load.chat_template_file.clear();
  load.options.draft_model.clear();
  load.options.lora.clear();
  load.options.model.control_vectors = {};
}

class LocalModel final : public TalkModel {
 public:
  LocalModel(const ChatFlags& flags, std::string folder, chat::AnswerForm form)
      : asked_(flags.load), folder_(std::move(folder)), form_(std::move(form)), grammars_(flags.form.reading) {
    asked_.options.sequences = 1;
  }

  Result<void> check() { return check_form(form_, grammars_); }
  Result<void> find(const ModelSearch& search) {
    CAIRN_TRY(load_, asked_.found(search));
    return {};
  }
  Result<void> load() {
    CAIRN_TRY(model_, load_shown(load_));
    warn_without_template(*model_);
    return {};
  }

  Result<TalkAnswer> answer(const ChatFlags& flags, const ordered_json& messages) override;

  std::string name() const override { return model_ == nullptr ? "" : model_->name; }
  std::string description() const override {
    if (model_ == nullptr) return "no model";
    return fmt::format("{} {} · {} tokens · {} · {}", model_->name, model_->quantisation, grouped(context_tokens()),
                       bytes_text(model_->file_bytes), model_->device.text());
  }
  int64_t context_tokens() const override { return model_ == nullptr ? 0 : model_->engine->context_tokens(); }
  Result<std::vector<std::string>> models() override;
  Result<void> use(const std::string& name) override;

 private:
  LoadFlags asked_;  // as somebody gave them
  LoadFlags load_;   // of the model
  const std::string folder_;
  const chat::AnswerForm form_;
  grammar::GrammarCache grammars_;
  std::unique_ptr<loader::LoadedModel> model_;  // null: neither the next one nor the one before could be loaded
};

void warn_of_cut(const FormFlags& form) {
  if (!form.schema_file.empty() || !form.grammar_file.empty() || !form.regex.empty())
    log_warning(
        "the answer was cut off before it was complete by --json-schema, --grammar or --regex; raise --max-tokens");
}

std::string note_of(const engine::Finish& finish) {
  if (finish.reason == engine::FinishReason::kRepetition) return "stopped: it kept repeating itself";
  if (finish.reason != engine::FinishReason::kLength) return "";
  return finish.context_full ? "cut: the context is full" : "cut off at --max-tokens";
}

AnswerStats stats_of(const engine::Finish& finish, const AnswerDisplay& display) {
  using Seconds = std::chrono::duration<double>;
  return {.prompt_tokens = finish.usage.prompt_tokens,
          .cached_tokens = finish.usage.cached_tokens,
          .tokens = finish.usage.completion_tokens,
          .first_seconds = Seconds(finish.timings.queue + finish.timings.prefill).count(),
          .decode_seconds = Seconds(finish.timings.decode).count(),
          .seconds = display.seconds(),
          .note = note_of(finish)};
}

Result<TalkAnswer> LocalModel::answer(const ChatFlags& flags, const ordered_json& messages) {
  if (model_ == nullptr) return fail(Code::kUnavailable, "no model is loaded; /model NAME loads one");
  AnswerDisplay display;
  chat::AnswerRequest request{.input = {.messages = messages}, .reasoning = flags.reasoning(), .form = form_};
  request.generate.sampling = flags.sampling.finish(model_->file.metadata(), load_.made);
  request.generate.max_tokens = flags.max_tokens < 0 ? load_.made.predict.value_or(-1) : flags.max_tokens;
  request.generate.stop = load_.made.stop;
  request.generate.reports_prefill = true;
  const chat::ChatModel chat_model = model_->chat_model();
  CAIRN_TRY(const chat::AnswerPlan plan, chat::plan_answer(chat_model, request, {.grammars = &grammars_}));
  request.generate.constraint = chat::make_constraint(chat_model, plan);
  CAIRN_TRY(const auto stream, model_->engine->submit(std::move(request.generate)));
  chat::AnswerReader reader(plan.prompt.output);
  const auto take = [&](std::span<const chat::Part> parts) {
    for (const chat::Part& part : parts)
      part.kind == chat::PartKind::kReasoning ? display.thinking(part.text) : display.content(part.text);
  };
  take(reader.begin());
  int64_t tokens = 0;
  while (true) {
    const engine::Events events = stream->wait(50ms);
    if (events.prefill) display.reading(events.prefill->total, events.prefill->cached, events.prefill->computed);
    for (const auto& token : events.tokens) take(reader.token(token));
    tokens += std::ssize(events.tokens);
    if (events.finished) {
      take(reader.finish(events.finish));
      const AnswerStats stats = stats_of(events.finish, display);
      if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(events.finish.error);
      if (events.finish.reason == engine::FinishReason::kLength) warn_of_cut(flags.form);
      if (events.finish.reason == engine::FinishReason::kRepetition)
        log_warning("the answer was stopped because it kept repeating itself; try a higher --temp or --repeat-penalty");
      return TalkAnswer{display.finish(), stats};
    }
    CAIRN_TRY_VOID(flush_output());
    if (chat_interrupted.load()) {  // destroying the stream cancels the request
      const double first = display.first_seconds();
      const AnswerStats stats{.tokens = tokens,
                              .first_seconds = first,
                              .decode_seconds = first < 0 ? -1 : display.seconds() - first,
                              .seconds = display.seconds(),
                              .note = "stopped"};
      return TalkAnswer{display.finish(), stats};
    }
  }
}

Result<std::vector<std::string>> LocalModel::models() {
  std::vector<std::string> names;
  CatalogFlags catalog;
  catalog.folder = folder_;
  for (const loader::CatalogModel& model : catalog.scan().models) {
    if (model.usable() && loader::answers(model.kind, loader::ModelKind::kChat)) names.push_back(model.name);
  }
  return names;
}

Result<void> LocalModel::use(const std::string& name) {
  LoadFlags asked = asked_;
  forget_model_flags(asked);
  asked.model = name;
  CAIRN_TRY(LoadFlags next, asked.found({.folder = folder_, .made = true}));
  {
    // A file that is no model is found out while the other one is still there.
    CAIRN_TRY(const loader::LoadOptions options, next.load_options());
    CAIRN_TRY(const loader::ModelLoad opened, loader::ModelLoad::open(next.model, options));
  }
  model_.reset();  // one model's memory at a time
  std::swap(load_, next);
  const auto loaded = load();
  if (loaded) {
    asked_ = std::move(asked);
    return {};
  }
  std::swap(load_, next);
  CAIRN_TRY_VOID(load());
  return loaded;
}

}  // namespace

Result<std::unique_ptr<TalkModel>> load_talk_model(const ChatFlags& flags, const ModelSearch& search) {
  CAIRN_TRY(chat::AnswerForm form, flags.form.read());
  auto model = std::make_unique<LocalModel>(flags, search.folder, std::move(form));
  CAIRN_TRY_VOID(model->check());
  CAIRN_TRY_VOID(model->find(search));
  CAIRN_TRY_VOID(model->load());
  return model;
}

}  // namespace cairn
