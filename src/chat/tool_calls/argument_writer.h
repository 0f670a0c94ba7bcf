/// Converts the arguments of a call as models write them into JSON, byte by byte.
///
/// JSON passes unchanged. Common errors of models are repaired: raw line ends and tabs in strings, escapes that JSON
/// lacks, lone surrogates, trailing commas, keys without quotes, and Python's quotes and constants. What is written is
/// the beginning of valid JSON at any time: commas, keys and numbers wait until what they need has come.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::chat::tool_call {

enum class Dialect {
  kJson,      ///< JSON, or a Python literal
  kKeywords,  ///< the text after `name(` in Python: key=value, ... )
  kGemma,     ///< {key:<|"|>text<|"|>,key:3}
};

class ArgumentWriter {
 public:
  enum class Result {
    kMore,
    kDone,        ///< the value is complete with this byte
    kDoneBefore,  ///< the value was complete before this byte, which is not part of it
    kBad,         ///< the bytes cannot become a value
  };
  explicit ArgumentWriter(Dialect dialect = Dialect::kJson);

  /// Appends to `out` what has become certain. After any result but kMore nothing more may be pushed.
  Result push(char byte, std::string& out);
  /// Appends what waits, for arguments that end here: as far as they came, and nothing that closes them.
  void cut(std::string& out) const;
  /// The last bytes pushed of which nothing has been written yet, as they came; after kBad with the one that was bad.
  const std::string& unwritten() const { return unwritten_; }
  bool started() const { return started_; }

 private:
  enum class State { kValue, kElementOrClose, kKeyOrClose, kKeyText, kKeyBare, kColon, kText, kBare, kAfter, kEnd };
  Result push_byte(char byte, std::string& out);
  Result push_value(char byte, std::string& out);
  Result push_key(char byte, std::string& out);
  Result push_after(char byte, std::string& out);
  Result push_bare(char byte, std::string& out);
  /// True if the string ends with this byte.
  bool push_text(char byte, std::string& to);
  bool push_gemma_text(char byte, std::string& to);
  void push_escape(char byte, std::string& to);
  bool open_quote(char byte);
  void release(std::string& out);
  Result close_frame(std::string& out);
  Result value_ended();

  Dialect dialect_;
  State state_ = State::kValue;
  bool started_ = false;
  std::string open_;        // closing brackets of all open ones, in order
  std::string pending_;     // commas, spaces and keys that wait for a value
  std::string bare_;        // a number or constant
  char quote_ = 0;          // the quote that ends the string
  size_t quote_bytes_ = 0;  // how many bytes of Gemma's quote have been read
  bool in_quote_ = false;   // whether Gemma's opening quote is being read
  std::string escape_;      // an incomplete escape sequence
  std::string high_;        // the first half of a surrogate pair
  std::string unwritten_;
};

/// Appends `byte` in the form that it has in a JSON string.
void append_escaped(std::string& to, char byte);
/// Appends `text` with its quotes.
void append_quoted(std::string& to, std::string_view text);

}  // namespace cairn::chat::tool_call
