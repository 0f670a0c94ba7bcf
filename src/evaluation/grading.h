/// Whether an answer is right. All rules are in docs/evaluation.md, and nothing but these rules decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluation/question.h"

namespace cairn::evaluation {

/// How an answer ended.
enum class AnswerEnd : uint8_t {
  kWhole,     ///< by the model itself
  kCut,       ///< at the maximum of tokens, or of the context
  kRepeated,  ///< it repeated itself without end, and was ended
  kFailed,    ///< there is none: Answer::content says why
};

struct AnswerCall {
  std::string name;
  std::string arguments;  ///< as the model wrote them
};

struct Answer {
  std::string content;
  std::string reasoning{};
  std::vector<AnswerCall> calls{};
  AnswerEnd end = AnswerEnd::kWhole;
  int64_t tokens = 0;
};

enum class Outcome : uint8_t {
  kRight,
  kWrong,
  kUnread,  ///< no answer of the question's kind is in the text
  kCut,     ///< the answer is not whole, so that it is not graded
  kFailed,  ///< there is no answer
};

/// "right", "wrong", "unread", "cut", "failed".
std::string_view outcome_name(Outcome outcome);
std::optional<Outcome> outcome_named(std::string_view name);

struct Grade {
  Outcome outcome = Outcome::kFailed;
  std::string read;  ///< what was read as the answer, or why none was
};

Grade grade(const Question& question, const Answer& answer);

/// The answer without the thinking that a server has left in it: what is before the first "</think>" with its tag, and
/// nothing at all where a thinking that begins the text does not end.
std::string_view without_thinking(std::string_view content);

/// The index of the choice that the text names.
std::optional<size_t> choice_in(std::string_view content, const std::vector<std::string>& choices);
/// The number that the text gives as its answer.
std::optional<ExactNumber> number_in(std::string_view content);
/// The text that a pattern is held against.
std::string_view bare_text(std::string_view content);
/// The text that is read as JSON.
std::string_view json_in(std::string_view content);

}  // namespace cairn::evaluation
