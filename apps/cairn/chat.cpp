// cairn chat: a conversation in the terminal, with a model loaded here or with a server's. cairn run: the same with a
// model that is fetched if it is not there, or one message and its answer.
#include <unistd.h>

#include <memory>
#include <string>

#include "commands.h"
#include "guide.h"
#include "help/help_format.h"
#include "output.h"
#include "pull_flags.h"
#include "talk/chat_flags.h"
#include "talk/conversation.h"
#include "talk/local_model.h"
#include "talk/remote_model.h"

namespace cairn {
namespace {

bool input_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

Result<void> chat_with_server(const ChatFlags& flags, int& exit_code) {
  catch_interrupts();
  CAIRN_TRY(const auto model, connect_talk_model(flags, input_is_terminal()));
  converse(flags, *model, exit_code);
  return {};
}

Result<void> talk(const ChatFlags& flags, int& exit_code) {
  if (!flags.url.empty()) return chat_with_server(flags, exit_code);
  ChatFlags found = flags;
  if (flags.load.model.empty()) {
    CAIRN_TRY(found.load.model, guide_model());
  }
  CAIRN_TRY(const auto model, load_talk_model(found));
  catch_interrupts();
  if (flags.load.model.empty() && input_is_terminal())
    CAIRN_TRY_VOID(show("This is Cairn's small demo model. To talk to a real one: cairn run qwen3:4b\n"));
  converse(found, *model, exit_code);
  return {};
}

/// The only message: the words, and what standard input holds where that is no terminal. Empty: a conversation.
Result<std::string> only_message(const ChatFlags& flags) {
  std::string text;
  for (const std::string& word : flags.words) text += (text.empty() ? "" : " ") + word;
  if (input_is_terminal()) return text;
  CAIRN_TRY(std::string input, read_whole_input());
  input.resize(input.find_last_not_of('\n') + 1);
  if (text.empty() && input.empty())
    return fail(Code::kInvalidArgument, "there is no message: give a TEXT, or write it to standard input");
  if (input.empty() || text.empty()) return input + text;
  return input + "\n\n" + text;
}

Result<void> run(const ChatFlags& flags, int& exit_code) {
  ChatFlags found = flags;
  CAIRN_TRY(const std::string message, only_message(flags));
  CAIRN_TRY(found.load.model, model_file(flags.load.model, flags.models));
  CAIRN_TRY(const auto model, load_talk_model(found));
  catch_interrupts();
  if (!message.empty()) return answer_once(found, *model, message);
  converse(found, *model, exit_code);
  return {};
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("chat",
                                     "Talk to a model in the terminal: one in a file, one on a server, or the bundled "
                                     "demo model. If standard input is "
                                     "not a terminal, each line of it is a message");
  set_help(*command, "cairn chat qwen3-4b.gguf --ctx 8192",
           {"--help", "--url", "--model", "--api-key", "--ctx", "--gpu-layers", "--system", "--reasoning",
            "--max-tokens", "--temp", "--seed", "--stats"});
  auto flags = std::make_shared<ChatFlags>();
  flags->load.add_to(*command, false);
  command->get_option("--model")->description(
      "GGUF file; of a split model, any part. With --url, the name of one of the server's models (default: the demo "
      "model, or the server's default model)");
  command
      ->add_option("--url", flags->url,
                   "Talk to this server instead of a file, e.g. http://127.0.0.1:8080, https://llm.example or "
                   "unix:/run/cairn.sock; it decides how to sample, except for what you set here")
      ->type_name("URL");
  command->add_option("--api-key", flags->api_key, "API key for the server of --url (default: CAIRN_API_KEY, if set)")
      ->type_name("KEY")
      ->envname("CAIRN_API_KEY");
  flags->add_to(*command);
  command->callback([command, flags, &exit_code] {
    quiet_log(*command);
    const auto fits = flags->url.empty() ? Result<void>() : check_remote_options(*command);
    if (const auto done = fits ? talk(*flags, exit_code) : fits; !done) exit_code = report(done.error());
  });
}

void add_run(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "run",
      "Talk to a model, which is downloaded first if necessary. With a TEXT, or if standard input is not a terminal, "
      "answer that and exit");
  set_help(*command, "cairn run qwen3:4b \"Why is the sky blue?\"",
           {"--help", "--ctx", "--gpu-layers", "--threads", "--system", "--reasoning", "--max-tokens", "--temp",
            "--seed", "--stats", "--models"});
  auto flags = std::make_shared<ChatFlags>();
  flags->load.add_to(*command, true);
  command->get_option("MODEL")->description(std::string(kNameHelp) + ", or a GGUF file");
  command->add_option("TEXT", flags->words, "The message to answer; text from standard input goes in front of it");
  add_models_flag(*command, flags->models);
  flags->add_to(*command);
  command->callback([command, flags, &exit_code] {
    quiet_log(*command);
    if (const auto done = run(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
