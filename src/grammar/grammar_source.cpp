#include "grammar/grammar_source.h"

#include <algorithm>
#include <utility>

#include "grammar/json_schema/json_schema.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn::grammar {
namespace {

using Made = Result<std::shared_ptr<const Grammar>>;

Made compile_schema(const nlohmann::ordered_json& schema) {
  auto made = compile_json_schema(schema, {});
  if (!made) return std::unexpected(made.error().error());
  return *std::move(made);
}

Made compile_object() {
  GrammarBuilder builder;
  return builder.finish(add_json_object(builder, Whitespace::kPretty));
}

Made compile_kind(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonObject:
      return compile_object();
    case GrammarSource::Kind::kJsonSchema:
      return compile_schema(source.schema);
    case GrammarSource::Kind::kRegex:
      return read_regex_grammar(source.text);
    case GrammarSource::Kind::kGbnf:
      return read_gbnf(source.text);
    case GrammarSource::Kind::kLark:
      return read_lark(source.text);
    case GrammarSource::Kind::kChoice:
      return read_choice(source.choices);
  }
  return fail(Code::kInternal, "a grammar of no kind");
}

// Sources with equal keys have the same language.
std::string key_of(const GrammarSource& source) {
  using Json = nlohmann::ordered_json;
  return std::to_string(static_cast<int>(source.kind)) + source.text +
         source.schema.dump(-1, ' ', false, Json::error_handler_t::replace) +
         Json(source.choices).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source) {
  Made made = compile_kind(source);
  if (made || made.error().code == Code::kInternal) return made;
  Error error = std::move(made).error();
  if (error.message.find(error.at) == std::string::npos) error.message = error.at + ": " + error.message;
  error.at = source.field;
  return std::unexpected(std::move(error));
}

Result<std::shared_ptr<const Grammar>> GrammarCache::get(const GrammarSource& source) {
  std::string key = key_of(source);
  const auto find = [&] { return std::ranges::find(entries_, key, &Entry::source); };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = find(); found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return entries_.front().grammar;
    }
  }
  CAIRN_TRY(std::shared_ptr<const Grammar> grammar, compile(source));
  const std::lock_guard lock(mutex_);
  if (find() != entries_.end()) return grammar;  // another thread was faster
  source_bytes_ += key.size();
  entries_.push_front({std::move(key), grammar});
  while (entries_.size() > kGrammarsMax || (source_bytes_ > kSourceBytesMax && entries_.size() > 1)) {
    source_bytes_ -= entries_.back().source.size();
    entries_.pop_back();
  }
  return grammar;
}

}  // namespace cairn::grammar
