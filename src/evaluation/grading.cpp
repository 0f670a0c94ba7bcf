#include "evaluation/grading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/json.h"
#include "base/text/utf8.h"

namespace cairn::evaluation {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kOutcomeNames = {"right", "wrong", "unread", "cut", "failed"};
constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kReadBytesMax = 200;  // of what is shown as read

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

std::string_view trimmed(std::string_view text, std::string_view what = kBlanks) {
  const size_t begin = text.find_first_not_of(what);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(what) - begin + 1);
}

std::string_view first_line(std::string_view text) { return text.substr(0, std::min(text.find('\n'), text.size())); }

std::string shortened(std::string_view text) {
  std::string_view kept = text.substr(0, std::min(text.size(), kReadBytesMax));
  kept = kept.substr(0, utf8_valid_prefix(kept));
  return std::string(kept) + (kept.size() < text.size() ? "..." : "");
}

/// The content of the last \boxed{...}, whose braces may contain others.
std::optional<std::string_view> boxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  const size_t begin = text.rfind(kBoxed);
  if (begin == std::string_view::npos) return {};
  const std::string_view inside = text.substr(begin + kBoxed.size());
  int depth = 1;
  for (size_t i = 0; i < inside.size(); ++i) {
    depth += (inside[i] == '{') - (inside[i] == '}');
    if (depth > 0) continue;
    std::string_view content = trimmed(inside.substr(0, i));
    for (const std::string_view style : {"\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{"})
      if (content.starts_with(style) && content.ends_with('}'))
        content = content.substr(style.size(), content.size() - style.size() - 1);
    return trimmed(content);
  }
  return {};
}

/// What stands behind the last "answer:" or "answer is", up to the end of its line; of a marker at the end of a line,
/// the next line that is not blank.
std::optional<std::string_view> marked(std::string_view text) {
  const std::string small = lowered(text);
  constexpr std::string_view kWord = "answer";
  constexpr std::string_view kMarks = " \t\r\n*_#`";
  for (size_t at = small.rfind(kWord); at != std::string::npos;
       at = at == 0 ? std::string::npos : small.rfind(kWord, at - 1)) {
    size_t behind = at + kWord.size();
    if (at > 0 && is_word(text[at - 1]) && text[at - 1] != '_') continue;
    behind = std::min(small.find_first_not_of(" *_", behind), small.size());
    const std::string_view rest = std::string_view(small).substr(behind);
    if (rest.starts_with(":")) {
      behind += 1;
    } else if (rest.starts_with("is") && rest.size() > 2 && !is_word(rest[2])) {
      behind += 2;
      behind = std::min(small.find_first_not_of(" *_", behind), small.size());
      if (behind < small.size() && small[behind] == ':') ++behind;
    } else {
      continue;
    }
    behind = std::min(text.find_first_not_of(kMarks, behind), text.size());
    std::string_view line = trimmed(first_line(text.substr(behind)));
    while (line.ends_with('*') || line.ends_with('`')) line.remove_suffix(1);  // whose other half is before the line
    return trimmed(line);
  }
  return {};
}

/// The inside of a text that is nothing but one block between ``` fences.
std::string_view without_fence(std::string_view text) {
  constexpr std::string_view kFence = "```";
  text = trimmed(text);
  if (!text.starts_with(kFence) || !text.ends_with(kFence) || text.size() < 2 * kFence.size()) return text;
  const std::string_view inside = text.substr(kFence.size(), text.size() - 2 * kFence.size());
  const size_t line_end = inside.find('\n');
  if (line_end == std::string_view::npos || inside.find(kFence) != std::string_view::npos) return text;
  return trimmed(inside.substr(line_end + 1));
}

/// The text without one pair of marks around it.
std::string_view without_marks(std::string_view text) {
  text = trimmed(text);
  for (const std::string_view mark : {"**", "`", "\"", "'"}) {
    if (text.size() > 2 * mark.size() && text.starts_with(mark) && text.ends_with(mark) &&
        text.substr(mark.size(), text.size() - 2 * mark.size()).find(mark) == std::string_view::npos)
      return trimmed(text.substr(mark.size(), text.size() - 2 * mark.size()));
  }
  return text;
}

/// The letter that the text begins with: "B", "(b)", "**B**", "B) Paris", "B. Paris", "B: Paris".
std::optional<size_t> leading_letter(std::string_view text, size_t choices) {
  constexpr std::string_view kOpening = " \t([*_`\"'";
  const size_t begin = text.find_first_not_of(kOpening);
  if (begin == std::string_view::npos) return {};
  const auto index = static_cast<size_t>(lower(text[begin]) - 'a');
  if (!is_letter(text[begin]) || index >= choices) return {};
  const std::string_view rest = text.substr(begin + 1);
  // "A mammal" and "a mammal" begin with a word: behind the letter comes the end of the line, or a mark.
  const bool ends = trimmed(first_line(rest)).empty();
  constexpr std::string_view kClosing = ").:],*_`\"'";
  return ends || kClosing.find(rest.front()) != std::string_view::npos ? std::optional(index) : std::nullopt;
}

/// The choice whose text this is, without regard to case, marks around it and a full stop.
std::optional<size_t> choice_of_text(std::string_view text, const std::vector<std::string>& choices) {
  const auto plain = [](std::string_view each) {
    each = without_marks(each);
    if (each.ends_with('.')) each.remove_suffix(1);
    return lowered(without_marks(each));
  };
  const std::string wanted = plain(text);
  std::optional<size_t> found;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (plain(choices[i]) != wanted) continue;
    if (found) return {};
    found = i;
  }
  return found;
}

/// Texts are equal without regard to case and blanks around them, numbers by their value, and members in any order.
bool same_value(const ordered_json& one, const ordered_json& other) {
  if (is_any_number(one) && is_any_number(other)) {
    const auto a = find_number(number_text(one)), b = find_number(number_text(other));
    return a && b && a->value && b->value ? *a->value == *b->value : number_value(one) == number_value(other);
  }
  if (one.is_string() && other.is_string())
    return lowered(trimmed(one.get_ref<const std::string&>())) == lowered(trimmed(other.get_ref<const std::string&>()));
  if (one.type() != other.type() || one.size() != other.size()) return false;
  if (one.is_object()) {
    return std::ranges::all_of(one.items(), [&](const auto& member) {
      const auto found = other.find(member.key());
      return found != other.end() && same_value(member.value(), *found);
    });
  }
  if (!one.is_array()) return one == other;
  return std::ranges::equal(one, other, same_value);
}

Grade grade_calls(const Question& question, const Answer& answer) {
  std::string read = answer.calls.empty() ? "no call" : "";
  std::vector<const ExpectedCall*> left;
  for (const ExpectedCall& call : question.calls) left.push_back(&call);
  bool right = answer.calls.size() == question.calls.size();
  for (const AnswerCall& call : answer.calls) {
    read += fmt::format("{}{}({})", read.empty() ? "" : ", ", call.name, call.arguments);
    const auto arguments = read_json(call.arguments);
    if (!arguments || !arguments->is_object()) return {Outcome::kUnread, shortened(read)};
    const auto found = std::ranges::find_if(left, [&](const ExpectedCall* each) {
      return each->name == call.name && same_value(each->arguments, *arguments);
    });
    if (found == left.end()) {
      right = false;
    } else {
      left.erase(found);
    }
  }
  return {right ? Outcome::kRight : Outcome::kWrong, shortened(read)};
}

Grade grade_json(const Question& question, std::string_view content) {
  const std::string_view text = json_in(content);
  const auto value = read_json(text);
  if (!value) return {Outcome::kUnread, "no JSON: it " + shortened(value.error().message)};
  const std::string written = json_text(*value);
  if (!is_text_of(question.language, written))
    return {Outcome::kWrong, "does not fit the schema: " + shortened(written)};
  const bool right = !question.json_answer || same_value(*question.json_answer, *value);
  return {right ? Outcome::kRight : Outcome::kWrong, shortened(written)};
}

Grade grade_text(const Question& question, std::string_view content) {
  if (question.kind == Kind::kChoice) {
    const auto choice = choice_in(content, question.choices);
    if (!choice) return {Outcome::kUnread, "no letter of a choice"};
    return {*choice == question.right_choice ? Outcome::kRight : Outcome::kWrong,
            std::string(1, static_cast<char>('A' + *choice))};
  }
  if (question.kind == Kind::kNumber) {
    const auto number = number_in(content);
    if (!number) return {Outcome::kUnread, "no number"};
    return {*number == question.number ? Outcome::kRight : Outcome::kWrong, number->text()};
  }
  const std::string_view text = bare_text(content);
  if (text.empty()) return {Outcome::kUnread, "no text"};
  return {is_text_of(question.pattern, text) ? Outcome::kRight : Outcome::kWrong, shortened(text)};
}

}  // namespace

std::string_view outcome_name(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

std::optional<Outcome> outcome_named(std::string_view name) {
  const auto* found = std::ranges::find(kOutcomeNames, name);
  if (found == kOutcomeNames.end()) return {};
  return static_cast<Outcome>(found - kOutcomeNames.begin());
}

std::string_view without_thinking(std::string_view content) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  const size_t close = content.find(kClose);
  if (close != std::string_view::npos) return content.substr(close + kClose.size());
  return trimmed(content).starts_with(kOpen) ? std::string_view() : content;
}

std::optional<size_t> choice_in(std::string_view content, const std::vector<std::string>& choices) {
  const auto read = [&](std::string_view text) {
    const auto letter = leading_letter(text, choices.size());
    return letter ? letter : choice_of_text(text, choices);
  };
  if (const auto inside = boxed(content)) return read(*inside);
  if (const auto behind = marked(content)) {
    if (const auto choice = read(*behind)) return choice;
  }
  const std::string_view whole = trimmed(content);
  if (const auto choice = read(whole)) return choice;
  const size_t last_line = whole.rfind('\n');
  return last_line == std::string_view::npos ? std::nullopt : read(whole.substr(last_line + 1));
}

std::optional<ExactNumber> number_in(std::string_view content) {
  if (const auto inside = boxed(content)) {
    const auto found = find_number(*inside);
    return found ? found->value : std::nullopt;
  }
  if (auto behind = marked(content)) {
    if (const size_t equals = behind->rfind('='); equals != std::string_view::npos) behind->remove_prefix(equals + 1);
    if (const auto found = find_number(*behind)) return found->value;
  }
  return last_number(content);
}

std::string_view bare_text(std::string_view content) {
  if (const auto inside = boxed(content)) return *inside;
  if (const auto behind = marked(content)) return without_marks(*behind);
  return without_marks(without_fence(content));
}

std::string_view json_in(std::string_view content) {
  constexpr std::string_view kFence = "```";
  const std::string_view whole = without_fence(content);
  const size_t begin = whole.find(kFence);
  if (begin == std::string_view::npos) return whole;
  // Words around a single block.
  const size_t end = whole.find(kFence, begin + kFence.size());
  if (end == std::string_view::npos || whole.find(kFence, end + kFence.size()) != std::string_view::npos) return whole;
  return without_fence(whole.substr(begin, end + kFence.size() - begin));
}

Grade grade(const Question& question, const Answer& answer) {
  if (answer.end == AnswerEnd::kFailed) return {Outcome::kFailed, shortened(answer.content)};
  if (answer.end == AnswerEnd::kCut) return {Outcome::kCut, "cut off at the maximum of tokens"};
  if (answer.end == AnswerEnd::kRepeated) return {Outcome::kCut, "ended because it kept repeating itself"};
  if (question.kind == Kind::kTool) return grade_calls(question, answer);
  const std::string_view content = without_thinking(answer.content);
  return question.kind == Kind::kSchema ? grade_json(question, content) : grade_text(question, content);
}

}  // namespace cairn::evaluation
