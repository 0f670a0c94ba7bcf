#include "evaluation/question.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <unordered_set>
#include <utility>

#include "base/text/json.h"
#include "grammar/grammar_source.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/matcher.h"

namespace cairn::evaluation {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kKindNames = {"choice", "number", "pattern", "tool", "schema"};
constexpr int kJsonIndent = 2;

template <class... Args>
std::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return fail(Code::kInvalidArgument, format, std::forward<Args>(args)...);
}

/// One line of a set, whose members are taken one by one.
class Line {
 public:
  explicit Line(ordered_json object) : object_(std::move(object)) {}

  const ordered_json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  Result<std::string> text(const char* name) const {
    const ordered_json* value = find(name);
    if (value == nullptr) return refuse("\"{}\" is missing", name);
    if (!value->is_string() || value->get_ref<const std::string&>().empty())
      return refuse("\"{}\" is no text, or an empty one", name);
    return value->get<std::string>();
  }
  /// Texts that differ from each other.
  Result<std::vector<std::string>> texts(const char* name, size_t most) const {
    const ordered_json* value = find(name);
    if (value == nullptr) return std::vector<std::string>();
    if (!value->is_array() || value->size() > most) return refuse("\"{}\" is no list of at most {} texts", name, most);
    std::vector<std::string> texts;
    for (const ordered_json& each : *value) {
      if (!each.is_string() || each.get_ref<const std::string&>().empty())
        return refuse("\"{}\" has an element that is no text, or an empty one", name);
      if (std::ranges::find(texts, each.get_ref<const std::string&>()) != texts.end())
        return refuse("\"{}\" has \"{}\" twice", name, each.get_ref<const std::string&>());
      texts.push_back(each);
    }
    return texts;
  }
  Result<void> has_only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : object_.items())
      if (std::ranges::find(names, name) == names.end())
        return refuse("\"{}\" is no member of a question of this kind", name);
    return {};
  }

 private:
  ordered_json object_;
};

Result<void> read_choice(const Line& line, Question& question) {
  CAIRN_TRY_VOID(line.has_only({"id", "kind", "question", "level", "tags", "choices", "answer"}));
  CAIRN_TRY(question.choices, line.texts("choices", kChoicesMax));
  if (question.choices.size() < kChoicesMin)
    return refuse("\"choices\" needs {} to {} texts", kChoicesMin, kChoicesMax);
  CAIRN_TRY(const std::string letter, line.text("answer"));
  const size_t index = letter.size() == 1 && letter[0] >= 'A' ? static_cast<size_t>(letter[0] - 'A') : kChoicesMax;
  if (index >= question.choices.size())
    return refuse("\"answer\" is the letter of a choice, A to {}, not \"{}\"",
                  static_cast<char>('A' + question.choices.size() - 1), letter);
  question.right_choice = index;
  question.answer_text = fmt::format("{}) {}", letter, question.choices[index]);
  return {};
}

Result<void> read_number(const Line& line, Question& question) {
  CAIRN_TRY_VOID(line.has_only({"id", "kind", "question", "level", "tags", "answer"}));
  const ordered_json* answer = line.find("answer");
  if (answer == nullptr) return refuse("\"answer\" is missing");
  if (!answer->is_string() && !is_any_number(*answer))
    return refuse("\"answer\" is neither a number nor a text of one");
  const std::string text = answer->is_string() ? answer->get<std::string>() : number_text(*answer);
  const auto found = find_number(text);
  if (!found || !found->value || found->begin != 0 || found->end != text.size())
    return refuse("\"answer\" is no exact number: {}", text);
  question.number = *found->value;
  question.answer_text = text;
  return {};
}

Result<void> read_pattern(const Line& line, Question& question) {
  CAIRN_TRY_VOID(line.has_only({"id", "kind", "question", "level", "tags", "pattern", "answer"}));
  CAIRN_TRY(const std::string pattern, line.text("pattern"));
  const grammar::GrammarSource source{
      .kind = grammar::GrammarSource::Kind::kRegex, .field = "pattern", .text = pattern};
  CAIRN_TRY(question.pattern, grammar::compile(source));
  CAIRN_TRY(question.answer_text, line.text("answer"));
  if (!is_text_of(question.pattern, question.answer_text)) return refuse("\"answer\" does not match \"pattern\"");
  return {};
}

/// Tools in OpenAI's shape: objects with a function's name.
Result<void> check_tools(const ordered_json& tools) {
  if (!tools.is_array() || tools.empty() || tools.size() > kToolsMax)
    return refuse("\"tools\" is no list of 1 to {} tools", kToolsMax);
  for (const ordered_json& tool : tools) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      return refuse("\"tools\" has an element that is no {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}");
  }
  return {};
}

Result<void> read_tool(const Line& line, Question& question) {
  CAIRN_TRY_VOID(line.has_only({"id", "kind", "question", "level", "tags", "tools", "answer"}));
  const ordered_json* tools = line.find("tools");
  if (tools == nullptr) return refuse("\"tools\" is missing");
  CAIRN_TRY_VOID(check_tools(*tools));
  question.tools = *tools;
  const ordered_json* answer = line.find("answer");
  if (answer == nullptr || !answer->is_array() || answer->size() > kToolsMax)
    return refuse("\"answer\" is no list of at most {} calls; where no call is right, it is []", kToolsMax);
  for (const ordered_json& call : *answer) {
    const bool whole = call.is_object() && call.size() == 2 && call.contains("name") && call["name"].is_string() &&
                       call.contains("arguments") && call["arguments"].is_object();
    if (!whole) return refuse("\"answer\" has an element that is no {{\"name\": TEXT, \"arguments\": OBJECT}}");
    ExpectedCall expected{call["name"], call["arguments"]};
    const bool known = std::ranges::any_of(
        *tools, [&](const ordered_json& tool) { return tool["function"]["name"] == expected.name; });
    if (!known) return refuse("\"answer\" calls {}, which \"tools\" does not have", expected.name);
    question.calls.push_back(std::move(expected));
  }
  question.answer_text = answer->empty() ? "no call" : json_text(*answer);
  return {};
}

Result<void> read_schema(const Line& line, Question& question) {
  CAIRN_TRY_VOID(line.has_only({"id", "kind", "question", "level", "tags", "schema", "answer"}));
  const ordered_json* schema = line.find("schema");
  if (schema == nullptr || !schema->is_object()) return refuse("\"schema\" is missing, or is no object");
  question.schema = *schema;
  grammar::SchemaOptions options;
  options.reading = grammar::SchemaReading::kStandard;
  options.order = grammar::KeyOrder::kAny;
  auto language = grammar::compile_json_schema(*schema, options);
  if (!language) {
    const Error error = language.error().error();
    return fail(error.code, "\"schema\" cannot be used: {}", error.text());
  }
  question.language = *std::move(language);
  if (const ordered_json* answer = line.find("answer")) {
    if (!is_text_of(question.language, json_text(*answer))) return refuse("\"answer\" does not fit \"schema\"");
    question.json_answer = *answer;
  }
  question.answer_text = question.json_answer ? json_text(*question.json_answer) : "JSON that fits the schema";
  return {};
}

Result<Question> read_question(std::string_view text) {
  if (text.size() > kLineBytesMax)
    return fail(Code::kTooLarge, "the line has {} bytes, over {}", text.size(), kLineBytesMax);
  auto object = read_json(text);
  if (!object) return fail(object.error().code, "the line is no JSON: it {}", object.error().message);
  if (!object->is_object()) return refuse("the line is no JSON object");
  const Line line(*std::move(object));
  Question question;
  CAIRN_TRY(question.id, line.text("id"));
  if (question.id.size() > kIdBytesMax) return refuse("\"id\" has over {} bytes", kIdBytesMax);
  CAIRN_TRY(question.text, line.text("question"));
  CAIRN_TRY(question.tags, line.texts("tags", kTagsMax));
  if (const ordered_json* level = line.find("level")) {
    if (!level->is_number_integer() || *level < 1 || *level > kLevelMax)
      return refuse("\"level\" is no whole number from 1 to {}", kLevelMax);
    question.level = *level;
  }
  CAIRN_TRY(const std::string kind, line.text("kind"));
  const auto* found = std::ranges::find(kKindNames, kind);
  if (found == kKindNames.end()) return refuse("\"kind\" is choice, number, pattern, tool or schema, not \"{}\"", kind);
  question.kind = static_cast<Kind>(found - kKindNames.begin());
  constexpr std::array kReaders = {read_choice, read_number, read_pattern, read_tool, read_schema};
  CAIRN_TRY_VOID(kReaders[static_cast<size_t>(question.kind)](line, question));
  return question;
}

}  // namespace

bool is_text_of(const std::shared_ptr<const grammar::Grammar>& language, std::string_view text) {
  grammar::Matcher matcher(language);
  return matcher.push(text) == text.size() && matcher.may_end();
}

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Result<std::vector<Question>> read_questions(std::string_view text, const std::string& name) {
  if (text.size() > kSetBytesMax)
    return fail_at(name, Code::kTooLarge, "the set has {} bytes, over {}", text.size(), kSetBytesMax);
  std::vector<Question> questions;
  std::unordered_set<std::string> ids;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto question = read_question(line);
    const std::string at = fmt::format("{}, line {}", name, number);
    if (!question) return fail_at(at, question.error().code, "{}", question.error().text());
    if (!ids.insert(question->id).second)
      return fail_at(at, Code::kInvalidArgument, "the id {} is another question's already", question->id);
    if (questions.size() == kQuestionsMax)
      return fail_at(at, Code::kTooLarge, "the set has over {} questions", kQuestionsMax);
    questions.push_back(*std::move(question));
  }
  if (questions.empty()) return fail_at(name, Code::kInvalidArgument, "the set has no question");
  return questions;
}

ordered_json messages_of(const Question& question) {
  std::string text = question.text;
  switch (question.kind) {
    case Kind::kChoice:
      text += '\n';
      for (size_t i = 0; i < question.choices.size(); ++i)
        text += fmt::format("\n{}) {}", static_cast<char>('A' + i), question.choices[i]);
      text += "\n\nAnswer with the letter of the right choice, and nothing else.";
      break;
    case Kind::kNumber:
      text += "\n\nWork it out in a few short steps. End with a line of this form: \"Answer: NUMBER\"";
      break;
    case Kind::kPattern:
      text += "\n\nAnswer with that alone, without an explanation.";
      break;
    case Kind::kTool:
      break;
    case Kind::kSchema:
      text += fmt::format("\n\nAnswer with JSON alone, which fits this JSON Schema:\n{}",
                          json_text(question.schema, kJsonIndent));
      break;
  }
  return ordered_json::array({{{"role", "user"}, {"content", std::move(text)}}});
}

}  // namespace cairn::evaluation
