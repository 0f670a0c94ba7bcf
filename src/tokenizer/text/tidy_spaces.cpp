#include "tokenizer/text/tidy_spaces.h"

namespace cairn::tokenizer {
namespace {

bool is_contraction(std::string_view after_apostrophe) {
  return after_apostrophe.starts_with('s') || after_apostrophe.starts_with('m') || after_apostrophe.starts_with("re") ||
         after_apostrophe.starts_with("ve");
}

}  // namespace

// Three passes, since the spaces that one removes change what the next one finds.
std::string tidy_spaces(std::string_view text) {
  std::string punctuated;
  punctuated.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool drop =
        text[i] == ' ' && i + 1 < text.size() && std::string_view(".,?!").find(text[i + 1]) != std::string_view::npos;
    if (!drop) punctuated += text[i];
  }

  const std::string_view from = punctuated;
  std::string joined;
  joined.reserve(from.size());
  for (size_t i = 0; i < from.size();) {
    if (from.substr(i).starts_with(" ' ")) {
      joined += '\'';
      i += 3;
    } else {
      joined += from[i++];
    }
  }

  std::string out;
  out.reserve(joined.size());
  for (size_t i = 0; i < joined.size(); ++i) {
    const std::string_view rest = std::string_view(joined).substr(i);
    if (!(rest.starts_with(" '") && is_contraction(rest.substr(2)))) out += joined[i];
  }
  return out;
}

size_t tidy_spaces_pending(std::string_view text) {
  size_t begin = text.size();
  // The first letter of 're and 've.
  if (begin >= 2 && (text[begin - 1] == 'r' || text[begin - 1] == 'v') &&
      (text[begin - 2] == '\'' || text[begin - 2] == ' ')) {
    --begin;
  }
  while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\'')) --begin;
  return text.size() - begin;
}

}  // namespace cairn::tokenizer
