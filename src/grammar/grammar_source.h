/// What a request may ask an answer to be, in any of the languages that grammars are made from, and the grammars that
/// were made.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"

namespace cairn::grammar {

struct GrammarSource {
  enum class Kind : uint8_t {
    kJsonObject,  ///< any JSON object
    kJsonSchema,  ///< `schema`
    kRegex,       ///< the whole answer matches `text`
    kGbnf,        ///< `text`
    kLark,        ///< `text`
    kChoice,      ///< one of `choices`
    kTagged,      ///< one of `tagged`
  };
  /// A text and, behind it, a JSON value.
  struct Tagged {
    std::string before{};
    bool space = false;  ///< a space may come between them
    nlohmann::ordered_json schema = nlohmann::ordered_json::object();
    bool strict = false;  ///< a schema that cannot be held to is an error; else any object takes its place
    std::string field{};  ///< for errors, in place of the source's
  };
  Kind kind = Kind::kJsonObject;
  std::string field{};  ///< of the request, for errors: "response_format.json_schema.schema"
  std::string text{};
  nlohmann::ordered_json schema{};
  std::vector<std::string> choices{};
  std::vector<Tagged> tagged{};
};

/// Errors: those of the language's reader; `at` is the source's field, and the message names the place inside.
Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source);

/// Grammars by their source, the least recently used of which are forgotten. Thread-safe; compiles on the caller's
/// thread.
class GrammarCache {
 public:
  static constexpr size_t kGrammarsMax = 64;
  static constexpr size_t kSourceBytesMax = size_t{8} << 20;  ///< of all sources together

  /// Errors: as compile().
  Result<std::shared_ptr<const Grammar>> get(const GrammarSource& source);

 private:
  struct Entry {
    std::string source;
    std::shared_ptr<const Grammar> grammar;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  size_t source_bytes_ = 0;
};

}  // namespace cairn::grammar
