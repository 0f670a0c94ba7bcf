/// What the constraints of a model's answers are made from, besides the request.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "chat/constraints/answer_grammar.h"
#include "chat/output/output_parser.h"
#include "sampling/text_ban.h"

namespace cairn::chat {

/// Each takes a pass over the vocabulary and is made when it is asked for first. Thread-safe. What it has given out
/// outlives it, but not the tokenizer.
class ConstraintTables {
 public:
  /// `tokenizer` outlives this.
  ConstraintTables(const tokenizer::Tokenizer& tokenizer, ToolFormat calls) : tokenizer_(tokenizer), calls_(calls) {}

  /// Forbids the beginning of a tool call in the model's format. Null: the format has no text of its own that begins
  /// one.
  std::shared_ptr<const sampling::TextBan> call_ban();
  /// What completes the texts that begin a call in the model's format (tool_call::call_starts), in their order. Null:
  /// there are none.
  std::shared_ptr<const sampling::TextBan> call_starts();
  std::shared_ptr<const AnswerVocabulary> vocabulary();
  /// Forbids the texts that a request bans, in any order and number: at least one, within the limits of
  /// sampling/text_ban.h. The last few are kept. Not made while others wait, so that two may make the same.
  std::shared_ptr<const sampling::TextBan> text_ban(std::vector<std::string> texts);

 private:
  static constexpr size_t kTextBansKept = 4;
  struct KeptTextBan {
    std::vector<std::string> texts;
    std::shared_ptr<const sampling::TextBan> ban;
  };

  const tokenizer::Tokenizer& tokenizer_;
  const ToolFormat calls_;
  std::mutex mutex_;  // guards the members below
  std::optional<std::shared_ptr<const sampling::TextBan>> call_ban_;
  std::optional<std::shared_ptr<const sampling::TextBan>> call_starts_;
  std::shared_ptr<const AnswerVocabulary> vocabulary_;
  std::vector<KeptTextBan> text_bans_;  // the one that was asked for last comes last
};

}  // namespace cairn::chat
