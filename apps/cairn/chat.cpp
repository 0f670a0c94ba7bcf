// cairn chat: a conversation in the terminal, with a model loaded here or with a server's. cairn run: the same with a
// model that is fetched if it is not there.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/utf8.h"
#include "chat/answer/plan.h"
#include "chat/answer/reader.h"
#include "commands.h"
#include "form_flags.h"
#include "guide.h"
#include "load_flags.h"
#include "net/http/http_client.h"
#include "net/http/percent.h"
#include "output.h"
#include "pull_flags.h"
#include "sampling_flags.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

struct ChatFlags {
  LoadFlags load;
  SamplingFlags sampling;
  FormFlags form;
  std::string url;
  std::string api_key;  ///< for the server; empty: none
  std::string system;
  std::string models;              ///< folder of `cairn run`
  std::vector<std::string> words;  ///< of the only message, instead of a conversation
  int32_t max_tokens = -1;
  int32_t reasoning_budget = -1;  ///< tokens of thinking; -1: no limit

  chat::ReasoningOptions reasoning() const {
    if (reasoning_budget < 0) return {};
    if (reasoning_budget == 0) return {.enabled = false};
    return {.tokens_max = reasoning_budget};
  }
};

std::atomic<bool> interrupted = false;

/// Prints thinking in another shade than the answer on a terminal, and not at all elsewhere.
class Shown {
 public:
  void thinking(std::string_view text) {
    if (!terminal_ || text.empty()) return;
    if (!std::exchange(in_thinking_, true)) show("\033[2m");
    show(text);
  }
  void content(std::string_view text) {
    if (text.empty()) return;
    end_thinking();
    show(text);
    answer_ += text;
  }
  /// The text so far, without the thinking.
  std::string finish() {
    if (in_thinking_) show("\033[0m");
    return std::move(answer_);
  }

 private:
  void end_thinking() {
    if (std::exchange(in_thinking_, false)) show("\033[0m\n\n");
  }
  bool terminal_ = ::isatty(STDOUT_FILENO) != 0;
  bool in_thinking_ = false;
  std::string answer_;
};

void warn_of_cut(const FormFlags& form) {
  if (!form.schema_file.empty() || !form.grammar_file.empty() || !form.regex.empty())
    log_warning("the answer was cut before the form that was asked for is complete");
}

/// Answers the conversation, showing text as it comes; returns the whole answer. Ends early once `interrupted`.
using Answer = std::function<Result<std::string>(const ordered_json& messages)>;

Result<std::string> answer_locally(const loader::LoadedModel& model, const ChatFlags& flags,
                                   const chat::AnswerForm& form, grammar::GrammarCache& grammars,
                                   const ordered_json& messages) {
  chat::AnswerRequest request{.input = {.messages = messages}, .reasoning = flags.reasoning(), .form = form};
  request.generate.sampling = flags.sampling.finish();
  request.generate.max_tokens = flags.max_tokens;
  const chat::ChatModel chat_model = model.chat_model();
  CAIRN_TRY(const chat::AnswerPlan plan, chat::plan_answer(chat_model, request, {.grammars = &grammars}));
  request.generate.constraint = chat::make_constraint(chat_model, plan);
  CAIRN_TRY(const auto stream, model.engine->submit(std::move(request.generate)));
  chat::AnswerReader reader(plan.prompt.output);
  Shown shown;
  const auto take = [&](std::span<const chat::Part> parts) {
    for (const chat::Part& part : parts)
      part.kind == chat::PartKind::kReasoning ? shown.thinking(part.text) : shown.content(part.text);
  };
  take(reader.begin());
  while (true) {
    const engine::Events events = stream->wait(50ms);
    for (const auto& token : events.tokens) take(reader.token(token));
    if (events.finished) {
      take(reader.finish(events.finish));
      if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(events.finish.error);
      if (events.finish.reason == engine::FinishReason::kLength) warn_of_cut(flags.form);
      if (events.finish.reason == engine::FinishReason::kRepetition)
        log_warning("the answer repeated itself without end and was ended");
      return shown.finish();
    }
    CAIRN_TRY_VOID(flush_output());
    if (interrupted.load()) return shown.finish();  // destroying the stream cancels the request
  }
}

/// The message of an error body, or the body itself.
std::string error_text(const std::string& body) {
  const auto value = ordered_json::parse(body, nullptr, false);
  if (value.is_object() && value.contains("error") && value["error"].is_object() &&
      value["error"].contains("message") && value["error"]["message"].is_string()) {
    return value["error"]["message"];
  }
  return body.substr(0, 300);
}

/// What the flags ask of the thinking, as fields of a request to a server.
Result<void> add_reasoning(const ChatFlags& flags, ordered_json& body) {
  CAIRN_TRY(const loader::LoadOptions options, flags.load.load_options());
  const chat::TemplateDefaults& defaults = options.template_defaults;
  const chat::ReasoningOptions reasoning = flags.reasoning();
  if (const auto enabled = reasoning.enabled ? reasoning.enabled : defaults.reasoning)
    body["enable_thinking"] = *enabled;
  if (reasoning.tokens_max) body["reasoning_budget_tokens"] = *reasoning.tokens_max;
  if (!defaults.variables.empty()) body["chat_template_kwargs"] = defaults.variables;
  return {};
}

Result<ordered_json> remote_request(const ChatFlags& flags, const ordered_json& messages) {
  ordered_json body = {{"messages", messages}, {"stream", true}};
  if (!flags.load.model.empty()) body["model"] = flags.load.model;
  flags.sampling.add_to_request(body);
  if (flags.max_tokens > 0) body["max_tokens"] = flags.max_tokens;
  CAIRN_TRY(const auto form, flags.form.read());
  if (form) add_form(*form, body);
  CAIRN_TRY_VOID(add_reasoning(flags, body));
  return body;
}

Result<std::string> answer_remotely(net::HttpClient& client, const net::ServerAddress& server, const ChatFlags& flags,
                                    const ordered_json& messages) {
  CAIRN_TRY(const ordered_json request, remote_request(flags, messages));
  std::string failure;
  Shown shown;
  net::EventSplitter splitter;
  const auto on_data = [&](std::string_view bytes) {
    for (const auto& data : splitter.push(bytes)) {
      const auto value = ordered_json::parse(data, nullptr, false);
      if (!value.is_object()) continue;  // "[DONE]"
      if (value.contains("error")) failure = error_text(data);
      const auto choices = value.find("choices");
      if (choices == value.end() || !choices->is_array() || choices->empty()) continue;
      if (const auto reason = choices->front().find("finish_reason");
          reason != choices->front().end() && *reason == "length")
        warn_of_cut(flags.form);
      const auto& delta = choices->front().value("delta", ordered_json::object());
      const auto thinking = delta.find("reasoning_content");
      if (thinking != delta.end() && thinking->is_string()) shown.thinking(thinking->get_ref<const std::string&>());
      const auto content = delta.find("content");
      if (content != delta.end() && content->is_string()) shown.content(content->get_ref<const std::string&>());
      if (!flush_output()) interrupted = true;
    }
  };
  const auto reply = client.request({.url = server.url + "/v1/chat/completions",
                                     .body = request.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                                     .headers = {{"Content-Type", "application/json"}},
                                     .token = flags.api_key,
                                     .socket = server.socket,
                                     .cancelled = &interrupted},
                                    on_data);
  if (!reply && reply.error().code == Code::kCancelled) return shown.finish();
  if (!reply) return std::unexpected(reply.error());
  if (reply->status != 200)
    return fail(Code::kUnavailable, "the server answered {}: {}", reply->status, error_text(reply->body));
  if (!failure.empty()) return fail(Code::kUnavailable, "the server stopped: {}", failure);
  return shown.finish();
}

/// Whether the server has the model that the flags name; a server that lists none is believed to. Errors: kNotFound
/// with the names that it lists; those of a server that cannot be asked.
Result<void> check_remote_model(net::HttpClient& client, const net::ServerAddress& server, const ChatFlags& flags) {
  const std::string& name = flags.load.model;
  if (name.empty()) return {};
  const auto call = [&](const std::string& path) {
    return client.request(
        {.url = server.url + path, .token = flags.api_key, .socket = server.socket, .cancelled = &interrupted});
  };
  CAIRN_TRY(const net::HttpReply reply, call("/v1/models"));
  const auto list = ordered_json::parse(reply.body, nullptr, false);
  const auto data = list.is_object() ? list.find("data") : list.end();
  if (!reply.success() || !list.is_object() || data == list.end() || !data->is_array()) return {};
  std::string names;
  for (const ordered_json& model : *data) {
    const auto id = model.is_object() ? model.find("id") : model.end();
    if (!model.is_object() || id == model.end() || !id->is_string()) continue;
    if (*id == name) return {};
    names += (names.empty() ? "" : ", ") + id->get<std::string>();
  }
  CAIRN_TRY(const net::HttpReply own,
            call("/v1/models/" + net::percent_encode(name)));  // it may be another name of one
  if (own.success()) return {};
  return fail(Code::kNotFound, "the server has no model {}; it has {}", name, names.empty() ? "none" : names);
}

constexpr std::string_view kHelp =
    "/clear  forget the conversation     /system TEXT  set the system message\n"
    "/help   this list                   /exit or Ctrl-D  leave\n"
    "Ctrl-C stops an answer.\n";

ordered_json opening(const std::string& system) {
  ordered_json messages = ordered_json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

/// Reads one line of input; false at the end.
bool read_line(std::string& line, bool terminal) {
  if (terminal) show("\n> ");
  while (true) {
    interrupted = false;
    if (std::getline(std::cin, line)) return true;
    if (!interrupted.load()) return false;
    // Ctrl-C while typing drops the line and prompts again.
    std::cin.clear();
    clearerr(stdin);
    show("\n> ");
  }
}

void converse(const ChatFlags& flags, const Answer& answer, int& exit_code) {
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  std::string system = flags.system;
  ordered_json messages = opening(system);
  for (std::string line; read_line(line, terminal);) {
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") return;
    if (line == "/help") {
      show(kHelp);
      continue;
    }
    if (line == "/clear" || line.starts_with("/system ")) {
      if (line != "/clear") system = line.substr(std::string_view("/system ").size());
      messages = opening(system);
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", utf8_replace_invalid(line)}});
    interrupted = false;
    auto text = answer(messages);
    if (!show("\n")) return;  // nobody reads the answers
    if (!text) {
      exit_code = report(text.error());
      messages.erase(messages.size() - 1);  // so that the next line does not answer it, too
      continue;
    }
    exit_code = 0;
    messages.push_back({{"role", "assistant"}, {"content", std::move(*text)}});
  }
  if (terminal) show("\n");
}

/// Answers a message that is no conversation.
Result<void> answer_once(const ChatFlags& flags, const Answer& answer) {
  ordered_json messages = opening(flags.system);
  std::string message;
  for (const std::string& word : flags.words) message += (message.empty() ? "" : " ") + word;
  messages.push_back({{"role", "user"}, {"content", utf8_replace_invalid(message)}});
  CAIRN_TRY(const std::string text, answer(messages));
  return show(text.ends_with('\n') ? "" : "\n");
}

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: reading a line is interrupted as well
  sigaction(SIGINT, &action, nullptr);
}

Result<void> run_chat(const ChatFlags& flags, int& exit_code) {
  if (!flags.url.empty()) {
    CAIRN_TRY(const net::ServerAddress server, net::parse_server_address(flags.url));
    catch_interrupts();
    net::HttpClient client;
    CAIRN_TRY_VOID(check_remote_model(client, server, flags));
    converse(
        flags, [&](const ordered_json& messages) { return answer_remotely(client, server, flags, messages); },
        exit_code);
    return {};
  }
  grammar::GrammarCache grammars(flags.form.reading);
  CAIRN_TRY(const chat::AnswerForm form, flags.form.read());
  CAIRN_TRY_VOID(check_form(form, grammars));
  LoadFlags load = flags.load;
  load.options.sequences = 1;
  if (load.model.empty()) {
    CAIRN_TRY(load.model, guide_model());
  }
  CAIRN_TRY(const auto model, load.load());
  warn_without_template(*model);
  catch_interrupts();
  if (::isatty(STDIN_FILENO) != 0 && flags.words.empty()) {
    if (flags.load.model.empty())
      show("This is Cairn's small demonstration model; for a real one: cairn chat MODEL.gguf\n");
    show("Type a message; /help lists commands.\n");
  }
  const Answer answer = [&](const ordered_json& messages) {
    return answer_locally(*model, flags, form, grammars, messages);
  };
  if (!flags.words.empty()) return answer_once(flags, answer);
  converse(flags, answer, exit_code);
  return {};
}

Result<void> run(const ChatFlags& flags, int& exit_code) {
  ChatFlags found = flags;
  CAIRN_TRY(found.load.model, model_file(flags.load.model, flags.models));
  return run_chat(found, exit_code);
}

void add_conversation_flags(CLI::App& command, ChatFlags& flags) {
  flags.load.add_template_flags(command);
  command.add_option("--system", flags.system, "System message");
  command
      .add_option("-n,--max-tokens", flags.max_tokens, "Tokens of one answer at most; -1: to the end of the context")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--reasoning-budget", flags.reasoning_budget,
                  "Tokens of one answer's thinking, which then is closed; 0: it does not think; -1: no limit")
      ->check(CLI::Range(-1, 1 << 30))
      ->capture_default_str();
  flags.form.add_to(command);
  flags.sampling.add_to(command, ShownDefaults::kSampler);
}

/// Options that load a model have no effect where a server has it. Error: kInvalidArgument with the first of them.
Result<void> check_remote_options(const CLI::App& command) {
  constexpr std::array<std::string_view, 12> kSent = {
      "url",    "api-key",    "model-file", "chat-template-kwargs", "reasoning", "reasoning-budget",
      "system", "max-tokens", "log-level",  "json-schema",          "grammar",   "regex"};
  for (const CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    if (option->count() == 0 || names.empty() || option->get_group() == kSamplingHeading ||
        std::ranges::find(kSent, names.front()) != kSent.end())
      continue;
    return fail(Code::kInvalidArgument, "--{} has no effect with --url: it is about a model that is loaded here",
                names.front());
  }
  return {};
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "chat",
      "Talk to a model in the terminal: a file's, a server's, or without either the small one that comes along");
  auto flags = std::make_shared<ChatFlags>();
  flags->load.add_to(*command, false);
  command->get_option("--model")->description(
      "GGUF file (any part of a split one), or with --url the name of one of the server's models (default: the "
      "server's)");
  command->add_option("--url", flags->url,
                      "Talk to this server instead of a local file, e.g. http://127.0.0.1:8080, https://llm.example or "
                      "unix:/run/cairn.sock; how it samples where no flag says is up to it");
  command->add_option("--api-key", flags->api_key, "Key that the server of --url asks for")->envname("CAIRN_API_KEY");
  add_conversation_flags(*command, *flags);
  command->callback([command, flags, &exit_code] {
    const auto fits = flags->url.empty() ? Result<void>() : check_remote_options(*command);
    if (const auto done = fits ? run_chat(*flags, exit_code) : fits; !done) exit_code = report(done.error());
  });
}

void add_run(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "run", "Talk to a model by its name, which is pulled if it is not there; with a TEXT, answer that and end");
  auto flags = std::make_shared<ChatFlags>();
  flags->load.add_to(*command, true);
  command->get_option("MODEL")->description(std::string(kNameHelp) + ", or a GGUF file");
  command->add_option("TEXT", flags->words, "The only message");
  add_models_flag(*command, flags->models);
  add_conversation_flags(*command, *flags);
  command->callback([flags, &exit_code] {
    if (const auto done = run(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
