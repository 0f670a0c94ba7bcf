/// What a request may ask an answer to be, in any of the languages that grammars are made from, and the grammars that
/// were made.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/call_grammar.h"
#include "grammar/grammar.h"

namespace cairn::grammar {

/// How a model writes messages with headers: thinking as often as it likes, and behind it an answer or a call. Texts
/// have control_token_bytes().
struct MessageFrame {
  std::string thinking_open{};  ///< empty: it may not think
  std::string thinking_close{};
  std::vector<std::string> answer_opens{};  ///< any of them; an answer ends where the text does
};

struct GrammarSource {
  enum class Kind : uint8_t {
    kJsonObject,  ///< any JSON object
    kJsonSchema,  ///< `schema`
    kRegex,       ///< the whole answer matches `text`
    kGbnf,        ///< `text`
    kLark,        ///< `text`
    kChoice,      ///< one of `choices`
    kCalls,       ///< a block of calls of `tools`, in one of `forms`
  };
  Kind kind = Kind::kJsonObject;
  std::string field{};  ///< of the request, for errors: "response_format.json_schema.schema"
  std::string text{};
  nlohmann::ordered_json schema{};
  std::vector<std::string> choices{};
  /// The text is free until one of these, with which the grammar's text begins. Empty: it begins at once.
  std::vector<std::string> triggers{};
  /// The forms of calls (kCalls). With a frame and another kind: calls that may take the answer's place.
  std::vector<CallForm> forms{};
  std::vector<CalledTool> tools{};
  std::optional<MessageFrame> frame{};  ///< the text is a message of an answer that is written so
};

/// Errors: those of the language's reader; `at` is the source's field, and the message names the place inside.
Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source,
                                               SchemaReading reading = SchemaReading::kDeclared);

/// Grammars by their source, the least recently used of which are forgotten. All schemas are read alike; the log says
/// how once, when it matters. Thread-safe; compiles on the caller's thread.
class GrammarCache {
 public:
  static constexpr size_t kGrammarsMax = 64;
  static constexpr size_t kSourceBytesMax = size_t{8} << 20;    ///< of all sources together
  static constexpr size_t kGrammarBytesMax = size_t{32} << 20;  ///< of all grammars together

  explicit GrammarCache(SchemaReading reading = SchemaReading::kDeclared) : reading_(reading) {}

  /// Errors: as compile().
  Result<std::shared_ptr<const Grammar>> get(const GrammarSource& source);

 private:
  struct Entry {
    std::string source;
    std::shared_ptr<const Grammar> grammar;
    size_t bytes = 0;  ///< of the grammar
  };
  void tell_reading(const GrammarSource& source);

  const SchemaReading reading_;
  std::once_flag told_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  size_t source_bytes_ = 0;
  size_t grammar_bytes_ = 0;
};

}  // namespace cairn::grammar
