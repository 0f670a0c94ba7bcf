/// Which tokens a text was sent with. What tokens say and what is sent come apart: markers of thinking and of calls are
/// read and not sent, what may become one is held back, and a token may end in the middle of a character.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::api::responses {

class TextTokens {
 public:
  /// The next token: the text that came with it, which is empty while it is held back, and what to send of it.
  void add(std::string_view text, nlohmann::ordered_json entry);
  /// An array with the entries of the tokens that `text` was written with; it and what came before it are done with.
  nlohmann::ordered_json take(std::string_view text);
  /// `text` is sent without its entries.
  void pass(std::string_view text);
  /// Something else than text is sent; the last token may go on with text.
  void pass_all_but_last();

 private:
  /// Tokens whose text came at once.
  struct Group {
    size_t end = 0;  // of its text, in text_
    bool open = true;
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  };
  /// Where `text` ends in text_: at its end, or before what is held back. If it is not there, it came without a token,
  /// as an answer's last text does: npos, for all that there is.
  size_t end_of(std::string_view text) const;
  void drop(size_t end);

  std::string text_;  // not sent yet
  std::vector<Group> groups_;
};

}  // namespace cairn::api::responses
