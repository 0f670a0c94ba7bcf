#include "evaluation/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text/json.h"

namespace cairn::evaluation {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Tally& tally) {
  const Interval interval = wilson_interval(tally.right, tally.all);
  return {{"questions", tally.all},
          {"right", tally.right},
          {"share", static_cast<double>(tally.right) / static_cast<double>(tally.all)},
          {"low", interval.low},
          {"high", interval.high},
          {"unread", tally.unread},
          {"cut", tally.cut},
          {"failed", tally.failed}};
}

/// A member of a question in a file; empty where it is no text.
std::string text_of(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<GradedQuestion> read_graded(const ordered_json& value, const std::string& at) {
  if (!value.is_object()) return fail_at(at, Code::kInvalidArgument, "is no object");
  GradedQuestion question{.id = text_of(value, "id"), .kind = text_of(value, "kind")};
  const std::string outcome = text_of(value, "outcome");
  const auto named = outcome_named(outcome);
  if (question.id.empty() || question.kind.empty() || !named)
    return fail_at(at, Code::kInvalidArgument,
                   "needs \"id\", \"kind\" and \"outcome\" (right, wrong, unread, cut or failed)");
  question.grade = {*named, text_of(value, "read")};
  const auto number = [&](const char* name, int64_t otherwise) {
    const auto found = value.find(name);
    return found != value.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
  };
  question.level = static_cast<int32_t>(std::clamp<int64_t>(number("level", 1), 1, kLevelMax));
  question.tokens = number("tokens", 0);
  if (const auto tags = value.find("tags"); tags != value.end() && tags->is_array()) {
    for (const ordered_json& tag : *tags)
      if (tag.is_string() && question.tags.size() < kTagsMax) question.tags.push_back(tag);
  }
  return question;
}

}  // namespace

void Tally::add(Outcome outcome) {
  ++all;
  right += outcome == Outcome::kRight;
  unread += outcome == Outcome::kUnread;
  cut += outcome == Outcome::kCut;
  failed += outcome == Outcome::kFailed;
}

std::vector<std::pair<std::string, Tally>> tallies_of(const Results& results) {
  std::vector<std::pair<std::string, Tally>> kinds, levels, tags;
  Tally all;
  const auto add = [](auto& list, const std::string& name, Outcome outcome) {
    auto found = std::ranges::find(list, name, [](const auto& each) { return each.first; });
    if (found == list.end()) found = list.insert(list.end(), {name, {}});
    found->second.add(outcome);
  };
  for (const GradedQuestion& question : results.questions) {
    all.add(question.grade.outcome);
    add(kinds, question.kind, question.grade.outcome);
    add(levels, fmt::format("level {}", question.level), question.grade.outcome);
    for (const std::string& tag : question.tags) add(tags, tag, question.grade.outcome);
  }
  std::ranges::sort(levels, {}, [](const auto& each) { return each.first; });
  std::vector<std::pair<std::string, Tally>> tallies;
  if (all.all > 0) tallies.emplace_back("all", all);
  for (auto* list : {&kinds, &levels, &tags}) std::ranges::move(*list, std::back_inserter(tallies));
  return tallies;
}

std::string results_text(const Results& results) {
  ordered_json scores = ordered_json::object();
  for (const auto& [name, tally] : tallies_of(results)) scores[name] = json_of(tally);
  std::string text =
      fmt::format("{{\"model\": {},\n \"set\": {},\n \"settings\": {},\n \"scores\": {},\n \"questions\": [",
                  json_text(results.model), json_text(results.set), json_text(results.settings), json_text(scores));
  const char* separator = "\n";
  for (const GradedQuestion& question : results.questions) {
    const ordered_json line = {{"id", question.id},
                               {"kind", question.kind},
                               {"level", question.level},
                               {"tags", question.tags},
                               {"outcome", outcome_name(question.grade.outcome)},
                               {"read", question.grade.read},
                               {"tokens", question.tokens}};
    text += std::exchange(separator, ",\n") + ("  " + json_text(line));
  }
  return text + "\n]}\n";
}

Result<Results> read_results(std::string_view text, const std::string& name) {
  if (text.size() > kResultsBytesMax)
    return fail_at(name, Code::kTooLarge, "the file has {} bytes, over {}", text.size(), kResultsBytesMax);
  const auto value = read_json(text);
  if (!value)
    return fail_at(name, value.error().code, "is no file that cairn eval --json writes: it {}", value.error().message);
  const auto questions = value->is_object() ? value->find("questions") : value->end();
  if (!value->is_object() || questions == value->end() || !questions->is_array())
    return fail_at(name, Code::kInvalidArgument, "is no file that cairn eval --json writes: it has no \"questions\"");
  if (questions->size() > kQuestionsMax)
    return fail_at(name, Code::kTooLarge, "has {} questions, over {}", questions->size(), kQuestionsMax);
  Results results{.model = text_of(*value, "model"), .set = text_of(*value, "set")};
  std::unordered_set<std::string> ids;
  for (size_t i = 0; i < questions->size(); ++i) {
    const std::string at = fmt::format("{}, questions[{}]", name, i);
    CAIRN_TRY(GradedQuestion question, read_graded((*questions)[i], at));
    if (!ids.insert(question.id).second)
      return fail_at(at, Code::kInvalidArgument, "the id {} comes twice", question.id);
    results.questions.push_back(std::move(question));
  }
  return results;
}

Result<Comparison> compare(const Results& one, const Results& other, uint64_t seed) {
  std::unordered_map<std::string_view, Outcome> outcomes;
  for (const GradedQuestion& question : other.questions) outcomes.emplace(question.id, question.grade.outcome);
  Comparison out;
  std::vector<int8_t> differences;
  for (const GradedQuestion& question : one.questions) {
    const auto found = outcomes.find(question.id);
    if (found == outcomes.end()) {
      ++out.only_in_one;
      continue;
    }
    out.one.add(question.grade.outcome);
    out.other.add(found->second);
    const bool first = question.grade.outcome == Outcome::kRight, second = found->second == Outcome::kRight;
    differences.push_back(static_cast<int8_t>(int{second} - int{first}));
    out.both_right += first && second;
    out.neither += !first && !second;
    if (first && !second) out.lost.push_back(question.id);
    if (second && !first) out.gained.push_back(question.id);
  }
  out.questions = std::ssize(differences);
  if (out.questions == 0)
    return fail(Code::kInvalidArgument, "no question is in both files; compare runs of the same set");
  out.only_in_other = std::ssize(other.questions) - out.questions;
  out.one_alone = std::ssize(out.lost);
  out.other_alone = std::ssize(out.gained);
  out.difference = static_cast<double>(out.other_alone - out.one_alone) / static_cast<double>(out.questions);
  out.interval = bootstrap_interval(differences, seed);
  out.p = sign_test(out.one_alone, out.other_alone);
  return out;
}

}  // namespace cairn::evaluation
