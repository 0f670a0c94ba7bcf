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

// `plain`: for each alternative whether any object takes the place of its schema's values.
Made compile_tagged(const std::vector<GrammarSource::Tagged>& all, const std::vector<bool>& plain) {
  GrammarBuilder builder;
  const SymbolId start = builder.rule("tagged");
  for (size_t i = 0; i < all.size(); ++i) {
    SymbolId value{};
    if (plain[i]) {
      value = add_json_object(builder, Whitespace::kPretty);
    } else {
      const auto made = add_json_schema(builder, all[i].schema, {});
      if (!made) return std::unexpected(made.error().error());
      value = *made;
    }
    const SymbolId before = builder.literal(all[i].before);
    if (all[i].space)
      builder.add(start, {before, builder.optional(builder.literal(" ")), value});
    else
      builder.add(start, {before, value});
  }
  return builder.finish(start);
}

Made compile_tagged(const std::vector<GrammarSource::Tagged>& all) {
  std::vector<bool> plain(all.size());
  if (Made made = compile_tagged(all, plain)) return made;
  // Which of them cannot be held to?
  for (size_t i = 0; i < all.size(); ++i) {
    const auto made = compile_json_schema(all[i].schema, {});
    if (made) continue;
    if (all[i].strict) {
      const Error error = made.error().error();
      return fail_at(all[i].field + error.at, error.code, "{}", error.message);
    }
    plain[i] = true;
  }
  return compile_tagged(all, plain);
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
    case GrammarSource::Kind::kTagged:
      return compile_tagged(source.tagged);
  }
  return fail(Code::kInternal, "a grammar of no kind");
}

// Sources with equal keys have the same language.
std::string key_of(const GrammarSource& source) {
  nlohmann::ordered_json key{static_cast<int>(source.kind), source.text, source.schema, source.choices};
  for (const GrammarSource::Tagged& one : source.tagged) {
    key.push_back(one.before);
    key.push_back(one.space);
    key.push_back(one.strict);
    key.push_back(one.schema);
  }
  return key.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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
