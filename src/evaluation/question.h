/// Questions whose answers can be graded exactly, as JSON lines (docs/evaluation.md describes the form).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "evaluation/number.h"
#include "grammar/grammar.h"

namespace cairn::evaluation {

inline constexpr size_t kSetBytesMax = 64u << 20;
inline constexpr size_t kLineBytesMax = 1u << 20;
inline constexpr size_t kQuestionsMax = 100'000;
inline constexpr size_t kIdBytesMax = 128;
inline constexpr size_t kChoicesMin = 2;
inline constexpr size_t kChoicesMax = 8;  ///< A to H: an I behind them would be the word as often as the letter
inline constexpr size_t kTagsMax = 16;
inline constexpr size_t kToolsMax = 64;
inline constexpr int32_t kLevelMax = 5;

enum class Kind : uint8_t { kChoice, kNumber, kPattern, kTool, kSchema };

/// "choice", "number", "pattern", "tool", "schema".
std::string_view kind_name(Kind kind);

struct ExpectedCall {
  std::string name;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
};

struct Question {
  std::string id;
  Kind kind = Kind::kChoice;
  std::string text;
  int32_t level = 1;  ///< 1 (easy) to kLevelMax (hard)
  std::vector<std::string> tags{};

  std::vector<std::string> choices{};                   ///< kChoice
  size_t right_choice = 0;                              ///< kChoice: an index of them
  ExactNumber number{};                                 ///< kNumber
  std::shared_ptr<const grammar::Grammar> pattern{};    ///< kPattern: of the whole answer
  nlohmann::ordered_json tools = nullptr;               ///< kTool: in OpenAI's shape
  std::vector<ExpectedCall> calls{};                    ///< kTool: in any order; none: no call may be made
  nlohmann::ordered_json schema = nullptr;              ///< kSchema
  std::shared_ptr<const grammar::Grammar> language{};   ///< kSchema: the JSON texts that the schema accepts
  std::optional<nlohmann::ordered_json> json_answer{};  ///< kSchema: the only right value, if there is one
  std::string answer_text{};                            ///< the right answer as people are shown it
};

/// The questions of a set, in its order. Blank lines are passed over. Errors: kInvalidArgument and kTooLarge, with the
/// line's number behind `name` as the place; kInvalidArgument, there is no question.
Result<std::vector<Question>> read_questions(std::string_view text, const std::string& name);

/// The set that comes with the program.
std::string_view own_questions_text();

/// Whether the text is one of those that the grammar describes.
bool is_text_of(const std::shared_ptr<const grammar::Grammar>& language, std::string_view text);

/// The conversation that puts the question to a model: the question itself, its choices or its schema, and how the
/// answer is to be written. An array of messages in OpenAI's shape.
nlohmann::ordered_json messages_of(const Question& question);

}  // namespace cairn::evaluation
