#include "grammar_check/grammar_line.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn {

namespace {

using nlohmann::ordered_json;
using CompiledLine = std::expected<std::shared_ptr<const grammar::Grammar>, LineError>;

constexpr std::string_view kKinds[] = {"schema", "regex", "gbnf", "lark", "choice", "json"};

std::unexpected<LineError> line_error(Error error) { return std::unexpected(LineError{std::move(error), {}}); }

CompiledLine without_keyword(Result<std::shared_ptr<const grammar::Grammar>> made) {
  if (!made) return line_error(std::move(made).error());
  return *std::move(made);
}

// Whether a text is one of the option's values.
Result<std::string> option_of(const ordered_json& options, const char* name,
                              std::initializer_list<std::string_view> values) {
  const auto found = options.find(name);
  if (found == options.end()) return std::string(*values.begin());
  if (found->is_string())
    for (const std::string_view value : values)
      if (found->get_ref<const std::string&>() == value) return std::string(value);
  return fail_at(fmt::format("options.{}", name), Code::kInvalidArgument, "expected one of {}",
                 fmt::join(values, ", "));
}

Result<std::vector<std::string>> texts_of(const ordered_json& value, const char* name) {
  std::vector<std::string> texts;
  const auto invalid = [name] { return fail_at(name, Code::kInvalidArgument, "expected a list of strings"); };
  if (!value.is_array()) return invalid();
  for (const ordered_json& text : value) {
    if (!text.is_string()) return invalid();
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

std::expected<std::shared_ptr<const grammar::Grammar>, LineError> compile_line(const ordered_json& line) {
  std::string_view kind;
  for (const std::string_view name : kKinds) {
    if (!line.contains(name)) continue;
    if (!kind.empty())
      return line_error({Code::kInvalidArgument, fmt::format("there are both {} and {}", kind, name), {}});
    kind = name;
  }
  if (kind.empty())
    return line_error({Code::kInvalidArgument, fmt::format("expected one of {}", fmt::join(kKinds, ", ")), {}});
  const ordered_json& value = line.at(kind);
  if (kind == "choice") {
    const Result<std::vector<std::string>> choices = texts_of(value, "choice");
    if (!choices) return line_error(choices.error());
    return without_keyword(grammar::read_choice(*choices));
  }
  if (!value.is_string())
    return line_error({Code::kInvalidArgument, fmt::format("expected a string for {}", kind), {}});
  const auto& text = value.get_ref<const std::string&>();
  if (kind == "regex") return without_keyword(grammar::read_regex_grammar(text));
  if (kind == "gbnf") return without_keyword(grammar::read_gbnf(text));
  return without_keyword(grammar::read_lark(text));
}

Result<std::vector<std::string>> instances_of(const ordered_json& line) {
  const auto found = line.find("instances");
  if (found == line.end()) return std::vector<std::string>{};
  return texts_of(*found, "instances");
}

Result<std::optional<TokenCut>> token_cut_of(const ordered_json& line) {
  const auto found = line.find("tokens");
  if (found == line.end() || found->is_null()) return std::nullopt;
  if (*found == "canonical") return TokenCut{TokenCut::Way::kCanonical, 0};
  if (*found == "bytes") return TokenCut{TokenCut::Way::kBytes, 0};
  if (found->is_object() && found->size() == 1 && found->contains("random")) {
    CAIRN_TRY(const uint64_t seed, count_of(*found, "random", 0));
    return TokenCut{TokenCut::Way::kRandom, seed};
  }
  return fail_at("tokens", Code::kInvalidArgument, R"(expected "canonical", "bytes" or {{"random": SEED}})");
}

Result<uint64_t> count_of(const ordered_json& line, const char* name, uint64_t otherwise) {
  const auto found = line.find(name);
  if (found == line.end() || found->is_null()) return otherwise;
  if (!found->is_number_unsigned()) return fail_at(name, Code::kInvalidArgument, "expected a whole number");
  return found->get<uint64_t>();
}

}  // namespace cairn
