/// Whom one talks to: a model that is loaded here, or a server's.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "talk/answer_display.h"
#include "talk/chat_flags.h"

namespace cairn {

struct TalkAnswer {
  std::string text;
  AnswerStats stats;
};

class TalkModel {
 public:
  virtual ~TalkModel() = default;
  /// Answers the conversation, showing text as it comes. Ends early, with what there is, once somebody interrupts.
  /// Errors: those of the parts, after which nothing is answered.
  virtual Result<TalkAnswer> answer(const ChatFlags& flags, const nlohmann::ordered_json& messages) = 0;
  /// Its name; empty: a server's default.
  virtual std::string name() const = 0;
  /// A line about it.
  virtual std::string description() const = 0;
  /// Tokens of a conversation; 0: not known.
  virtual int64_t context_tokens() const = 0;
  /// Names of the models that use() takes. Errors: the server cannot be asked.
  virtual Result<std::vector<std::string>> models() = 0;
  /// Goes on with another model. Errors: kNotFound, with the names that there are; those of loading it. The model of
  /// before then stays.
  virtual Result<void> use(const std::string& name) = 0;
};

/// Set by Ctrl-C, from catch_interrupts() on.
extern std::atomic<bool> chat_interrupted;
void catch_interrupts();

}  // namespace cairn
