#include "api/responses/custom_input.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/responses/tools.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

namespace cairn::api::responses {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// The code unit of \uXXXX at the beginning of `text`; negative: it is none.
int32_t code_unit(std::string_view text) {
  if (text.size() < 6 || !text.starts_with("\\u")) return -1;
  int32_t unit = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
  return error == std::errc() && end == text.data() + 6 ? unit : -1;
}

}  // namespace

void CustomInput::begin() {
  size_t at = 0;
  const auto skip = [&](std::string_view what) {
    at = std::min(text_.find_first_not_of(kSpace, at), text_.size());
    if (!std::string_view(text_).substr(at).starts_with(what)) return false;
    at += what.size();
    return true;
  };
  if (!skip("{") || !skip("\"input\"") || !skip(":") || !skip("\"")) return;
  at_ = at;
  state_ = State::kInside;
}

size_t CustomInput::escape(std::string& out) const {
  const std::string_view rest = std::string_view(text_).substr(at_);
  if (rest.size() < 2) return 0;
  constexpr std::string_view kLetters = "bfnrt", kMeant = "\b\f\n\r\t";
  if (rest[1] != 'u') {
    const size_t letter = kLetters.find(rest[1]);
    out += letter == std::string_view::npos ? rest[1] : kMeant[letter];
    return 2;
  }
  if (rest.size() < 6) return 0;
  const int32_t unit = code_unit(rest);
  const bool high = unit >= 0xd800 && unit < 0xdc00;
  if (high && rest.size() < 12 && std::string_view("\\u").starts_with(rest.substr(6, 2))) return 0;
  const int32_t low = high ? code_unit(rest.substr(6)) : -1;
  if (low >= 0xdc00 && low < 0xe000) {
    utf8_append(out, static_cast<char32_t>(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)));
    return 12;
  }
  utf8_append(out, static_cast<char32_t>(unit < 0 ? 0xfffd : unit));
  return 6;
}

void CustomInput::decode(std::string& out) {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find_first_of("\\\"", at_), text_.size());
    out.append(text_, at_, end - at_);
    at_ = end;
    if (at_ == text_.size()) return;
    if (text_[at_] == '"') {
      state_ = State::kBehind;
      return;
    }
    const size_t taken = escape(out);
    if (taken == 0) return;
    at_ += taken;
  }
}

std::string CustomInput::add(std::string_view text) {
  text_ += text;
  std::string out;
  if (state_ == State::kBefore) begin();
  if (state_ == State::kInside) decode(out);
  return out;
}

std::string CustomInput::finish() {
  if (state_ != State::kBefore) return {};
  // Another shape: an object that has it elsewhere, or no object at all.
  const auto whole = read_json(text_);
  if (whole && whole->is_object()) {
    const auto input = whole->find(kCustomInput);
    if (input != whole->end() && input->is_string()) return input->get<std::string>();
  }
  return text_;
}

}  // namespace cairn::api::responses
