// Finds out which of the known pre-tokenizers a tokenizer.json has.
//
// Source: the pre_tokenizer section as the tokenizers library defines it. Its patterns are compared with those of
// tokenizer/text/pre_tokenizer_table.cpp, which are the same patterns in PCRE2's syntax.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "convert/huggingface/vocabulary.h"
#include "tokenizer/text/pre_tokenizer.h"

namespace cairn::convert {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// \x{4E00} as the character.
void replace_code_points(std::string& text) {
  for (size_t at = text.find("\\x{"); at != std::string::npos; at = text.find("\\x{", at)) {
    uint32_t code = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + at + 3, end, code, 16);
    if (error != std::errc() || stop == end || *stop != '}') return;
    std::string character;
    utf8_append(character, static_cast<char32_t>(code));
    text.replace(at, static_cast<size_t>(stop + 1 - (text.data() + at)), character);
    at += character.size();
  }
}

// One spelling for patterns that mean the same.
std::string plain(std::string pattern) {
  constexpr std::string_view kEndings = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
  replace_all(pattern, "(?i:'s|'t|'re|'ve|'m|'ll|'d)", kEndings);
  replace_all(pattern, "(?i:[sdmt]|ll|ve|re)", "(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])");
  replace_all(pattern, "\r", "\\r");
  replace_all(pattern, "\n", "\\n");
  replace_code_points(pattern);
  constexpr std::string_view kRest = "|\\s+";  // matches what no other alternative does: it need not be there
  if (pattern.ends_with(kRest)) pattern.resize(pattern.size() - kRest.size());
  return pattern;
}

constexpr std::string_view kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";

void add_patterns(const nlohmann::json& step, std::vector<std::string>& patterns, int depth = 0) {
  constexpr int kDepthMax = 8;
  if (!step.is_object() || depth > kDepthMax) return;
  const std::string type = step.value("type", nlohmann::json("")).is_string() ? step["type"].get<std::string>() : "";
  if (type == "Sequence") {
    const auto steps = step.find("pretokenizers");
    if (steps == step.end() || !steps->is_array()) return;
    for (const auto& each : *steps) add_patterns(each, patterns, depth + 1);
  } else if (type == "ByteLevel") {
    const auto words = step.find("use_regex");
    if (words == step.end() || !words->is_boolean() || words->get<bool>())
      patterns.push_back(plain(std::string(kWords)));
  } else if (type == "Split") {
    const auto pattern = step.find("pattern");
    if (pattern == step.end() || !pattern->is_object()) return;
    for (const char* kind : {"Regex", "String"}) {
      const auto text = pattern->find(kind);
      if (text != pattern->end() && text->is_string()) patterns.push_back(plain(text->get<std::string>()));
    }
  } else if (type == "Digits") {
    const auto single = step.find("individual_digits");
    patterns.emplace_back(single != step.end() && *single == true ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "Punctuation") {
    patterns.emplace_back(kPunctuation);
  } else {
    patterns.push_back(type);
  }
}

bool has_normal_form(const nlohmann::json& normalizer) {
  if (!normalizer.is_object()) return false;
  if (const auto type = normalizer.find("type"); type != normalizer.end() && *type == "NFC") return true;
  const auto steps = normalizer.find("normalizers");
  if (steps == normalizer.end() || !steps->is_array()) return false;
  return std::ranges::any_of(*steps, [](const auto& step) { return has_normal_form(step); });
}

bool same_rules(const tokenizer::PreTokenizerSpec& spec, const std::vector<std::string>& patterns) {
  if (spec.rules.size() != patterns.size()) return false;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (spec.rules[i].kind != tokenizer::SplitRule::Kind::kPattern) return false;
    if (plain(std::string(spec.rules[i].pattern)) != patterns[i]) return false;
  }
  return true;
}

// Where several names mean the same, that of the family that had it first.
constexpr std::string_view kUsual[] = {"gpt-2", "llama-bpe", "qwen2", "gpt-4o", "tekken", "starcoder", "deepseek-v3"};

}  // namespace

Result<std::string> pre_tokenizer_name(const nlohmann::json& tokenizer, std::string_view preferred) {
  std::vector<std::string> patterns;
  if (const auto steps = tokenizer.find("pre_tokenizer"); steps != tokenizer.end()) add_patterns(*steps, patterns);
  const auto model = tokenizer.find("model");
  const bool ignore_merges = model != tokenizer.end() && model->is_object() && model->contains("ignore_merges") &&
                             (*model)["ignore_merges"] == true;
  const bool normal_form = tokenizer.contains("normalizer") && has_normal_form(tokenizer["normalizer"]);
  std::string_view best;
  int best_marks = -1;
  for (const auto& [name, spec] : tokenizer::pre_tokenizers()) {
    if (!same_rules(spec, patterns)) continue;
    const int marks = (spec.ignore_merges == ignore_merges ? 8 : 0) + (spec.nfc == normal_form ? 4 : 0) +
                      (name == preferred ? 2 : 0) + (std::ranges::find(kUsual, name) != std::end(kUsual) ? 1 : 0);
    if (marks > best_marks) {
      best = name;
      best_marks = marks;
    }
  }
  if (!best.empty()) return std::string(best);
  return fail(Code::kUnsupported,
              "tokenizer.json splits texts by rules that are not known: \"{}\"; --pre gives one of these by name: {}",
              printable(fmt::format("{}", fmt::join(patterns, "\", \"")), 2000), tokenizer::pre_tokenizer_names());
}

}  // namespace cairn::convert
