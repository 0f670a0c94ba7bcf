/// How a model writes calls of tools, and the grammar of a block of them.
///
/// Texts have control_token_bytes() in place of the model's control tokens. In them {index} stands for a number, {id}
/// for a call's id and {type} for a JSON type's name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/json_schema/json_schema.h"

namespace cairn::grammar {

inline constexpr uint32_t kCallIdBytesMax = 64;
inline constexpr uint32_t kCallIndexDigitsMax = 4;

/// Where there may be nothing, one space, or indented lines.
enum class Spacing : uint8_t {
  kNone,
  kMarkup,  ///< where a text begins or ends with white space, or has a line end
  kJson,    ///< there and around the punctuation of JSON: a call is an object
};

/// A block: open (call_open NAME name_close ARGUMENTS call_close) separator ... close.
struct CallForm {
  enum class Arguments : uint8_t {
    kObject,      ///< one object, in the notation
    kParameters,  ///< members with markup around them; other values in the notation
  };
  struct Parameter {
    std::string open{};
    std::string key_close{};
    std::string other_key_close{};  ///< before a value that is no text as it stands; empty: key_close
    std::string close{};
    std::string between{};
    std::string text_open{};  ///< and text_close: what may be around a text besides
    std::string text_close{};
    bool has_texts = true;  ///< strings stand as they are
    bool marked = false;    ///< the markup tells strings from other values
  };
  std::vector<std::string> opens{};  ///< any of them; with an empty one, `close` may be missing too
  std::string call_open{};
  std::vector<std::string> name_closes{};  ///< any of them
  std::string call_close{};
  std::string separator{};
  std::string close{};
  bool repeats = false;  ///< there may be several calls in the block
  Spacing spacing = Spacing::kMarkup;
  uint32_t id_bytes = 0;   ///< of {id}, letters and digits; 0: any number, and _ and -
  bool id_member = false;  ///< a call may have a member "id" behind its arguments
  Arguments arguments = Arguments::kObject;
  Parameter parameter{};
  Notation notation{};
};

/// Arguments that are one string in a language of its own.
struct CallInput {
  enum class Syntax : uint8_t { kLark, kRegex };
  std::string key;  ///< of the member that is the string
  Syntax syntax = Syntax::kLark;
  std::string definition{};
};

struct CalledTool {
  std::string name;
  nlohmann::ordered_json schema = nlohmann::ordered_json::object();
  bool strict = false;                           ///< the arguments follow the schema, not just the notation
  bool lenient = false;                          ///< with strict: only where the schema can be held to
  std::map<std::string, ParameterKind> kinds{};  ///< of its parameters, for kParameters; others: kEither
  std::optional<CallInput> input{};              ///< in place of the schema
  std::string field{};                           ///< for errors
};

/// Spellings of a text.
RegexId markup(RegexPool& pool, std::string_view text, Spacing spacing, uint32_t id_bytes);

/// Adds rules for blocks in any of the forms, whose arguments are written alike, and schemas read so. Errors: those of
/// a strict tool's schema, at the tool's field.
Result<SymbolId> add_calls(GrammarBuilder& builder, const std::vector<CallForm>& forms,
                           const std::vector<CalledTool>& tools, SchemaReading reading = SchemaReading::kDeclared);
/// A grammar of the blocks alone.
Result<std::shared_ptr<const Grammar>> compile_calls(const std::vector<CallForm>& forms,
                                                     const std::vector<CalledTool>& tools,
                                                     SchemaReading reading = SchemaReading::kDeclared);

}  // namespace cairn::grammar
