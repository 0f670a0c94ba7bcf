// `cairn render`: renders conversations as the text that a model would get, one JSON line for each line of input.
#include <ctime>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/text_file.h"
#include "chat/builtin_templates.h"
#include "chat/chat_template.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "jinja/jinja.h"
#include "model_argument.h"
#include "output.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

struct RenderFlags {
  std::string model;
  std::string template_file;
  std::optional<int64_t> now;
  bool jsonl = false;
};

/// Renders one line's variables.
using Renderer = std::function<Result<jinja::Rendering>(ordered_json variables, std::time_t now)>;

/// The text of the token that `key` names by its id; empty if the file names none.
Result<std::string> token_text(const gguf::Metadata& metadata, std::string_view key) {
  if (!metadata.contains(key) || !metadata.contains("tokenizer.ggml.tokens")) return std::string();
  CAIRN_TRY(const int64_t id, metadata.integer(key));
  CAIRN_TRY(const auto tokens, metadata.strings("tokenizer.ggml.tokens"));
  if (id < 0 || id >= static_cast<int64_t>(tokens.size()))
    return fail(Code::kCorruptFile, "{} is {}, but there are {} tokens", key, id, tokens.size());
  return std::string(tokens[static_cast<size_t>(id)]);
}

/// A renderer that works as the server: with the model's template and tokens, and messages converted to the form that
/// the template takes.
Result<Renderer> model_renderer(const std::string& model) {
  CAIRN_TRY(const std::string path, find_model_file(model));
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  const gguf::Metadata& metadata = file.metadata();
  CAIRN_TRY(std::string_view source, metadata.string_or("tokenizer.chat_template", ""));
  CAIRN_TRY(const std::string_view architecture, metadata.string_or("general.architecture", ""));
  if (source.empty()) source = chat::builtin_template(architecture);
  CAIRN_TRY(std::string bos, token_text(metadata, "tokenizer.ggml.bos_token_id"));
  CAIRN_TRY(std::string eos, token_text(metadata, "tokenizer.ggml.eos_token_id"));
  CAIRN_TRY(chat::ChatTemplate created, chat::ChatTemplate::create(source, std::move(bos), std::move(eos)));
  if (created.is_fallback()) std::cerr << "cairn: the model has no chat template; rendering ChatML\n";
  const auto chat_template = std::make_shared<const chat::ChatTemplate>(std::move(created));
  return [chat_template](ordered_json variables, std::time_t now) -> Result<jinja::Rendering> {
    chat::ChatInput input;
    const auto take = [&](const char* name, ordered_json& place) {
      const auto found = variables.find(name);
      if (found == variables.end()) return;
      place = std::move(*found);
      variables.erase(found);
    };
    if (!variables.contains("messages")) return fail(Code::kInvalidArgument, "the line has no \"messages\"");
    take("messages", input.messages);
    take("tools", input.tools);
    ordered_json add_generation_prompt = true;
    take("add_generation_prompt", add_generation_prompt);
    if (!add_generation_prompt.is_boolean())
      return fail(Code::kInvalidArgument, "add_generation_prompt must be true or false");
    input.add_generation_prompt = add_generation_prompt.get<bool>();
    input.variables = std::move(variables);
    return chat_template->render(input, now);
  };
}

/// A renderer for a template alone, which gets each line's variables unchanged.
Result<Renderer> template_renderer(const std::string& path) {
  CAIRN_TRY(const std::string source, read_text_file(path, "--template", jinja::kJinjaSourceBytesMax));
  CAIRN_TRY(jinja::JinjaTemplate parsed, jinja::JinjaTemplate::parse(source));
  const auto jinja = std::make_shared<const jinja::JinjaTemplate>(std::move(parsed));
  return [jinja](const ordered_json& variables, std::time_t now) {
    return jinja->render(variables, jinja::kNothingOwn, now);
  };
}

Result<jinja::Rendering> render_line(const Renderer& renderer, const std::string& line, std::time_t now) {
  CAIRN_TRY_VOID(check_line_length(line));
  ordered_json variables = ordered_json::parse(line, nullptr, false);
  if (variables.is_discarded()) return fail(Code::kInvalidArgument, "the line is not JSON");
  if (!variables.is_object()) return fail(Code::kInvalidArgument, "the line is not a JSON object");
  return renderer(std::move(variables), now);
}

Result<void> run_render(const RenderFlags& flags) {
  CAIRN_TRY(const Renderer renderer,
            flags.template_file.empty() ? model_renderer(flags.model) : template_renderer(flags.template_file));
  for (LineInput lines;;) {
    CAIRN_TRY(const auto line, lines.next());
    if (!line) return {};
    if (line->empty()) continue;
    const std::time_t now = flags.now.has_value() ? static_cast<std::time_t>(*flags.now) : std::time(nullptr);
    const Result<jinja::Rendering> rendered = render_line(renderer, *line, now);
    const ordered_json answer = rendered.has_value() ? ordered_json{{"rendered", rendered->text}}
                                                     : ordered_json{{"error", rendered.error().text()}};
    CAIRN_TRY_VOID(show(answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n"));
  }
}

}  // namespace

void add_render(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RenderFlags>();
  CLI::App* command = app.add_subcommand(
      "render",
      "Render conversations with a chat template. Each line of standard input is a JSON object with \"messages\" and "
      "any "
      "other variables for the template; for each, a line {\"rendered\": text} or {\"error\": text} is printed.");
  set_help(*command, "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | cairn render qwen3-4b.gguf");
  auto* source = command->add_option_group("source", "What renders");
  source->add_option("MODEL", flags->model,
                     "GGUF file, or a name that cairn list shows, whose template and special tokens to use");
  source
      ->add_option("--template", flags->template_file,
                   "Jinja file to use instead of a model's template; it gets each line's variables unchanged")
      ->type_name("FILE");
  source->require_option(1);
  command->add_flag("--jsonl", flags->jsonl, "One conversation per line, which is the only format");
  command->add_option("--now", flags->now, "Time for the template's clock, in seconds since 1970 (default: now)")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()))
      ->type_name("SECONDS");
  command->callback([flags, &exit_code] {
    if (const Result<void> done = run_render(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
