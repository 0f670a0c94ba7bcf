/// Asks a model the questions of `cairn eval`: one that is loaded here, through the same plan of an answer as the
/// server, or a server's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "evaluation/eval_flags.h"
#include "evaluation/grading.h"
#include "evaluation/question.h"

namespace cairn {

class Answerer {
 public:
  virtual ~Answerer() = default;
  /// Called by several threads at once. What goes wrong is an answer that failed. Nothing: `stopped` was set.
  virtual std::optional<evaluation::Answer> answer(const evaluation::Question& question) = 0;
  /// The model's name; empty: the default of a server that does not tell.
  virtual std::string name() const = 0;
};

/// The model of the flags, which is loaded here, or is their server's. `flags` and `stopped` outlive it. Errors: those
/// of find_model and of loading; the server cannot be reached, or has no such model.
Result<std::unique_ptr<Answerer>> make_local_answerer(const EvalFlags& flags, const std::atomic<bool>& stopped);
Result<std::unique_ptr<Answerer>> make_remote_answerer(const EvalFlags& flags, const std::atomic<bool>& stopped);

/// How likely a model finds a text behind another one.
struct ContinuationScore {
  int64_t tokens = 0;
  double logprob = 0;  ///< the sum over them, natural logarithm
};

class Scorer {
 public:
  virtual ~Scorer() = default;
  /// The tokens of the whole text that reach beyond the prompt. Errors: those of the engine or the server;
  /// kUnsupported, a server that does not score prompts.
  virtual Result<ContinuationScore> score(const std::string& prompt, const std::string& continuation) = 0;
};

/// The same for scores.
Result<std::unique_ptr<Scorer>> make_local_scorer(const LoadFlags& load, const std::atomic<bool>& stopped);
Result<std::unique_ptr<Scorer>> make_remote_scorer(const AskedModel& model, const std::atomic<bool>& stopped);

}  // namespace cairn
