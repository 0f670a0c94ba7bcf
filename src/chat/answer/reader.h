/// The tokens of an answer -> its content, reasoning and tool calls, and how it ended.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_turn.h"
#include "chat/output/output_parser.h"
#include "chat/sampled_turns.h"
#include "engine/event.h"

namespace cairn::chat {

inline constexpr size_t kPromptTailBytes = 1'024;

/// What an answer is read with.
struct OutputContext {
  OutputFormat format{};
  nlohmann::ordered_json tools{};        ///< null: no call is read
  std::string prompt{};                  ///< its end, as text: at least the last kPromptTailBytes of it
  std::string prefill{};                 ///< comes next; the client knows of it, so that its text is not sent
  std::string forced_prefix{};           ///< the answer's beginning, which a required tool call forces on the model
  std::vector<TokenId> forced_tokens{};  ///< of forced_prefix
  std::vector<std::string> template_stop_strings{};  ///< stop strings that nobody asked for: they end the model's turn
  OfferedTools offered{};                            ///< of which calls in another dress are read
  std::string model{};                               ///< its name, for the log
  bool hides_reasoning = false;                      ///< what is read as reasoning is not for the client
  OutputParser parser() const;                       ///< has not read the forced prefix yet
};

enum class ChatFinishReason {
  kStop,        ///< the model ended its turn
  kStopString,  ///< ChatFinish::stop came
  kLength,
  kToolCalls,   ///< the model ended its turn with calls, all whole
  kCutCall,     ///< the model ended its turn, or a stop string did, within a call
  kRepetition,  ///< the answer repeated itself without end (RepetitionDetector) and has been ended
  kCancelled,
};

struct ChatFinish {
  ChatFinishReason reason = ChatFinishReason::kStop;
  std::string stop;
  bool context_full = false;  ///< with kLength: it is the end of the context, not max_tokens
  ChatTurn turn;
  engine::Usage usage;
  int32_t reasoning_tokens = 0;  ///< of usage.completion_tokens
  engine::Timings timings;
};

/// Reads one answer, whose beginning may be forced. Not thread-safe. What it returns is valid until the next call.
/// Every call's begin has an id.
class AnswerReader {
 public:
  explicit AnswerReader(const OutputContext& context);

  /// The parts that the prompt has begun already, as far as nobody else has them. Called first.
  std::span<const Part> begin();
  /// What became certain with the token.
  std::span<const Part> token(const engine::TokenEvent& event);
  /// Whether the model was thinking when it wrote the last token, or began to with it.
  bool thought() const { return thought_ || parser_.in_reasoning(); }
  /// The rest, when no token comes any more.
  std::span<const Part> finish(const engine::Finish& finish);
  /// After finish(): how the answer ended, with all of its parts again.
  ChatFinish result(engine::Finish&& finish);
  /// Whether the answer ended by itself and is whole, so that the turn can be restored from its tokens.
  bool ended_by_itself(const ChatFinish& finish) const;
  /// The turn with its tokens, for exact replay.
  SampledTurn sampled_turn(const ChatTurn& turn, const tokenizer::Tokenizer& tokenizer) const;

 private:
  void skip_prefill();
  /// Adds the parts to the turn, and ids to those that begin a call.
  void collect();

  std::string model_;
  std::string prefill_;
  std::string forced_prefix_;
  std::vector<TokenId> forced_tokens_;
  std::vector<std::string> template_stop_strings_;
  int id_bytes_;
  OutputParser parser_;
  std::vector<Part> parts_;  // of the last call
  ChatTurn turn_;
  std::vector<TokenId> tokens_;
  int32_t reasoning_tokens_ = 0;
  size_t thinking_end_ = 0;  // index of the first token behind the thinking; kNoThinkingEnd: it ends within a token
  bool thought_ = false;     // before the last token the model was thinking
  bool broken_ = false;      // a call is
  bool cut_ = false;         // the last call is
  size_t prefill_held_ = 0;  // bytes of the prefill that the parser still holds back
};

}  // namespace cairn::chat
