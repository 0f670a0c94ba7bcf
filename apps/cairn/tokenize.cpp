// `cairn tokenize`: converts text to token ids, in a readable form or line by line for programs.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "base/text/text_file.h"
#include "base/text/utf8.h"
#include "chat/pair_prompts.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "model_argument.h"
#include "output.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> pair;
  bool jsonl = false;
  bool detok = false;
  bool no_special = false;
  bool plain = false;
};

// ---- One JSON line ----

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]);
    const int low = i + 1 < hex.size() ? hex_digit(hex[i + 1]) : -1;
    if (high < 0 || low < 0) return fail_at("hex", Code::kInvalidArgument, "byte {} is not two hex digits", i / 2);
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

Result<bool> flag_of(const ordered_json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return false;
  if (!found->is_boolean()) return fail_at(name, Code::kInvalidArgument, "expected true or false");
  return found->get<bool>();
}

Result<std::string> text_of(const ordered_json& line) {
  for (const char* name : {"text", "hex"}) {
    const auto found = line.find(name);
    if (found == line.end()) continue;
    if (!found->is_string()) return fail_at(name, Code::kInvalidArgument, "expected a string");
    const std::string text = found->get<std::string>();
    return name == std::string_view("hex") ? from_hex(text) : text;
  }
  return fail(Code::kInvalidArgument, "expected \"text\", or \"hex\" for bytes that are not UTF-8");
}

Result<ordered_json> answer(const tokenizer::Tokenizer& tokenizer, const std::string& input, bool detok) {
  CAIRN_TRY_VOID(check_line_length(input));
  const ordered_json line = ordered_json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return fail(Code::kInvalidArgument, "the line is not a JSON object");
  tokenizer::EncodeOptions options;
  CAIRN_TRY(options.add_special, flag_of(line, "add_special"));
  CAIRN_TRY(options.parse_special, flag_of(line, "parse_special"));
  CAIRN_TRY(const std::string text, text_of(line));
  CAIRN_TRY(const std::vector<TokenId> ids, tokenizer.encode(text, options));
  ordered_json out;
  out["ids"] = ordered_json::array();
  for (const TokenId id : ids) out["ids"].push_back(index(id));
  if (detok) {
    const std::string decoded = tokenizer.decode(ids, /*render_special=*/true);
    if (utf8_valid(decoded)) {
      out["detok"] = decoded;
    } else {
      out["detok_hex"] = to_hex(decoded);
    }
  }
  return out;
}

Result<void> write_line(const std::string& line) { return show(line + "\n"); }

Result<void> answer_lines(const tokenizer::Tokenizer& tokenizer, bool detok) {
  for (LineInput lines;;) {
    CAIRN_TRY(const auto line, lines.next());
    if (!line) return {};
    Result<ordered_json> out = answer(tokenizer, *line, detok);
    if (!out) out = ordered_json{{"error", out.error().text()}};
    CAIRN_TRY_VOID(write_line(out->dump(-1, ' ', false, ordered_json::error_handler_t::replace)));
  }
}

// ---- One text ----

Result<std::string> prompt_of(const TokenizeFlags& flags) {
  return flags.prompt ? *flags.prompt : read_standard_input("the text");
}

// Shows a pair as /v1/rerank builds it; each token is marked as part of the query (A) or of the document (B), if the
// model distinguishes them.
Result<void> show_pair(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer, std::string_view query,
                       std::string_view document) {
  CAIRN_TRY(const chat::PairPrompts pairs, chat::PairPrompts::make(metadata, tokenizer, query));
  CAIRN_TRY(const chat::PairPrompt pair, pairs.with(document, 0));
  for (size_t i = 0; i < pair.tokens.size(); ++i) {
    const std::string_view piece = tokenizer.piece(pair.tokens[i], /*render_special=*/true);
    const bool second = pair.second_begin != model::kNoSecond && std::cmp_greater_equal(i, pair.second_begin);
    const std::string_view text = pair.second_begin == model::kNoSecond ? "" : second ? "  B" : "  A";
    CAIRN_TRY_VOID(
        write_line(fmt::format("{:>7}{}  '{}'", index(pair.tokens[i]), text, printable(piece, piece.size()))));
  }
  return {};
}

Result<void> show_tokens(const tokenizer::Tokenizer& tokenizer, const TokenizeFlags& flags) {
  CAIRN_TRY(const std::string text, prompt_of(flags));
  const tokenizer::EncodeOptions options{.add_special = !flags.no_special, .parse_special = !flags.plain};
  CAIRN_TRY(const std::vector<TokenId> ids, tokenizer.encode(text, options));
  std::string lines;
  for (const TokenId id : ids) {
    const std::string_view piece = tokenizer.piece(id, /*render_special=*/true);
    lines += fmt::format("{:>7}  '{}'\n", index(id), printable(piece, piece.size()));
  }
  if (!lines.empty()) lines.pop_back();
  return lines.empty() ? Result<void>{} : write_line(lines);
}

Result<void> run(const TokenizeFlags& flags) {
  CAIRN_TRY(const std::string path, find_model_file(flags.model));
  CAIRN_TRY(const gguf::Reader reader, gguf::Reader::open(path));
  CAIRN_TRY(const std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::Tokenizer::load(reader.metadata()));
  if (flags.jsonl) return answer_lines(*tokenizer, flags.detok);
  if (flags.pair) {
    CAIRN_TRY(const std::string query, prompt_of(flags));
    return show_pair(reader.metadata(), *tokenizer, query, *flags.pair);
  }
  return show_tokens(*tokenizer, flags);
}

int tokenize(const TokenizeFlags& flags) {
  const Result<void> done = run(flags);
  return done ? 0 : report(done.error());
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("tokenize", "Show the tokens of a text");
  set_help(*command, "cairn tokenize qwen3-4b.gguf -p \"Hello, world\"");
  const auto flags = std::make_shared<TokenizeFlags>();
  command
      ->add_option("MODEL", flags->model,
                   "GGUF file, which need only have a vocabulary, or a name that cairn list shows")
      ->required();
  auto* prompt = command->add_option("-p,--prompt", flags->prompt, "The text (default: standard input)");
  auto* pair = command->add_option(
      "--pair", flags->pair,
      "For rerankers: a document; the text is the query, and the tokens of both together are shown");
  auto* no_special =
      command->add_flag("--no-special", flags->no_special, "Leave out the tokens that begin and end a text");
  auto* plain = command->add_flag("--plain", flags->plain, "Treat names of special tokens in the text as plain text");
  auto* jsonl = command->add_flag("--jsonl", flags->jsonl,
                                  "For programs: each line of standard input is {\"text\" or \"hex\", \"add_special\", "
                                  "\"parse_special\"}, and each line of output {\"ids\"} or {\"error\"}");
  jsonl->excludes(prompt)->excludes(no_special)->excludes(plain)->excludes(pair);
  pair->excludes(no_special)->excludes(plain);
  command
      ->add_flag("--detok", flags->detok, "With --jsonl: also print the text of the ids, as \"detok\" or \"detok_hex\"")
      ->needs(jsonl);
  command->callback([flags, &exit_code] { exit_code = tokenize(*flags); });
}

}  // namespace cairn
