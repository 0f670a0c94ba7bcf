#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chat/answer/plan.h"
#include "chat/answer/reader.h"
#include "chat/completion_prompt.h"
#include "evaluation/answerer.h"
#include "gguf/reader.h"
#include "grammar/grammar_source.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using evaluation::AnswerEnd;

/// Tokens of a question, of its tools and of the template around them.
constexpr int32_t kPromptTokens = 2'048;

struct LocalModel {
  LoadFlags load;
  std::unique_ptr<loader::LoadedModel> loaded;
};

Result<LocalModel> load_model(const LoadFlags& asked, int32_t parallel, int32_t max_tokens) {
  LocalModel model;
  CAIRN_TRY(model.load, asked.found({.made = true}));
  loader::LoadOptions& options = model.load.options;
  options.sequences = options.engine.sequences_max = options.engine.queue_max = parallel;
  if (options.model.context_tokens == 0 && max_tokens > 0) {
    CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(model.load.model));
    const auto architecture = file.metadata().string("general.architecture");
    const int64_t trained =
        architecture ? file.metadata().integer_or(std::string(*architecture) + ".context_length", 0).value_or(0) : 0;
    if (trained > max_tokens + kPromptTokens) options.model.context_tokens = max_tokens + kPromptTokens;
  }
  CAIRN_TRY(model.loaded, model.load.load());
  if (model.loaded->embedder != nullptr)
    return fail(Code::kUnsupported, "{} is an encoder: it answers no questions", model.loaded->name);
  return model;
}

AnswerEnd end_of(chat::ChatFinishReason reason) {
  if (reason == chat::ChatFinishReason::kLength || reason == chat::ChatFinishReason::kCutCall) return AnswerEnd::kCut;
  return reason == chat::ChatFinishReason::kRepetition ? AnswerEnd::kRepeated : AnswerEnd::kWhole;
}

evaluation::Answer failed(const Error& error) { return {.content = error.text(), .end = AnswerEnd::kFailed}; }

class LocalAnswerer final : public Answerer {
 public:
  LocalAnswerer(const EvalFlags& flags, const std::atomic<bool>& stopped, LocalModel model)
      : flags_(flags), stopped_(stopped), model_(std::move(model)) {}

  std::optional<evaluation::Answer> answer(const evaluation::Question& question) override {
    auto answer = ask(question);
    return answer ? *std::move(answer) : failed(answer.error());
  }
  std::string name() const override { return model_.loaded->name; }

 private:
  Result<std::optional<evaluation::Answer>> ask(const evaluation::Question& question);

  const EvalFlags& flags_;
  const std::atomic<bool>& stopped_;
  const LocalModel model_;
  grammar::GrammarCache grammars_;
};

Result<std::optional<evaluation::Answer>> LocalAnswerer::ask(const evaluation::Question& question) {
  chat::AnswerRequest request{.input = {.messages = evaluation::messages_of(question), .tools = question.tools}};
  if (flags_.thinking != "auto") request.reasoning.enabled = flags_.thinking == "on";
  request.generate.sampling = flags_.sampling.finish(model_.loaded->file.metadata(), model_.load.made);
  request.generate.max_tokens = flags_.max_tokens;
  request.generate.stop = model_.load.made.stop;
  const chat::ChatModel chat_model = model_.loaded->chat_model();
  CAIRN_TRY(const chat::AnswerPlan plan, chat::plan_answer(chat_model, request, {.grammars = &grammars_}));
  request.generate.constraint = chat::make_constraint(chat_model, plan);
  CAIRN_TRY(const auto stream, model_.loaded->engine->submit(std::move(request.generate)));
  chat::AnswerReader reader(plan.prompt.output);
  reader.begin();
  while (!stopped_) {
    engine::Events events = stream->wait(50ms);
    for (const auto& token : events.tokens) reader.token(token);
    if (!events.finished) continue;
    if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(events.finish.error);
    reader.finish(events.finish);
    chat::ChatFinish finish = reader.result(std::move(events.finish));
    evaluation::Answer answer{.content = std::move(finish.turn.content),
                              .reasoning = std::move(finish.turn.reasoning),
                              .end = end_of(finish.reason),
                              .tokens = finish.usage.completion_tokens};
    for (chat::ToolCall& call : finish.turn.calls)
      answer.calls.push_back({std::move(call.name), std::move(call.arguments)});
    return answer;
  }
  return std::optional<evaluation::Answer>();  // destroying the stream cancels the request
}

class LocalScorer final : public Scorer {
 public:
  LocalScorer(const std::atomic<bool>& stopped, LocalModel model) : stopped_(stopped), model_(std::move(model)) {}
  Result<ContinuationScore> score(const std::string& prompt, const std::string& continuation) override;

 private:
  const std::atomic<bool>& stopped_;
  const LocalModel model_;
};

Result<ContinuationScore> LocalScorer::score(const std::string& prompt, const std::string& continuation) {
  engine::GenerateRequest request;
  CAIRN_TRY(request.prompt, chat::completion_prompt_tokens(model_.loaded->prompt_context(), prompt + continuation));
  request.prompt_logprobs = 0;
  request.max_tokens = 0;
  CAIRN_TRY(const auto stream, model_.loaded->engine->submit(std::move(request)));
  std::vector<engine::PromptScore> scores;
  while (!stopped_) {
    engine::Events events = stream->wait(50ms);
    std::ranges::move(events.prompt, std::back_inserter(scores));
    if (!events.finished) continue;
    if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(events.finish.error);
    // The last tokens, as many as it takes to write the continuation.
    ContinuationScore sum;
    size_t bytes = 0;
    for (auto score = scores.rbegin(); score != scores.rend() && bytes < continuation.size(); ++score) {
      if (score->rank == 0) break;
      bytes += model_.loaded->tokenizer->piece(score->token, true).size();
      sum.logprob += score->logprob;
      ++sum.tokens;
    }
    return sum;
  }
  return fail(Code::kCancelled, "stopped");
}

}  // namespace

Result<std::unique_ptr<Answerer>> make_local_answerer(const EvalFlags& flags, const std::atomic<bool>& stopped) {
  CAIRN_TRY(LocalModel model, load_model(flags.model.load, flags.parallel, flags.max_tokens));
  warn_without_template(*model.loaded);
  return std::make_unique<LocalAnswerer>(flags, stopped, std::move(model));
}

Result<std::unique_ptr<Scorer>> make_local_scorer(const LoadFlags& load, const std::atomic<bool>& stopped) {
  CAIRN_TRY(LocalModel model, load_model(load, 1, 0));
  return std::make_unique<LocalScorer>(stopped, std::move(model));
}

}  // namespace cairn
