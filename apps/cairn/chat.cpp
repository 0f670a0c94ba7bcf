// cairn chat: a conversation in the terminal, with a model loaded here or with a server's. cairn run: the same with a
// model that is fetched if it is not there, or one message and its answer.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "catalog_flags.h"
#include "commands.h"
#include "first_model.h"
#include "guide.h"
#include "help/help_format.h"
#include "model_argument.h"
#include "output.h"
#include "pull_flags.h"
#include "talk/chat_flags.h"
#include "talk/conversation.h"
#include "talk/local_model.h"
#include "talk/remote_model.h"
#include "talk/saved_talk.h"

namespace cairn {
namespace {

bool input_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

Result<void> chat_with_server(const ChatFlags& flags, int& exit_code) {
  catch_interrupts();
  CAIRN_TRY(const auto model, connect_talk_model(flags, input_is_terminal()));
  converse(flags, *model, exit_code);
  return {};
}

/// Where this machine has no models: the file of one that is chosen and fetched now. Empty: there are some, or none is
/// wanted, and then `about_guide` is what is left to say of the demonstration model.
Result<std::string> first_model(std::string& about_guide) {
  if (!CatalogFlags().scan().models.empty()) return std::string();
  about_guide = "This is Cairn's small demonstration model.\n";
  CAIRN_TRY_VOID(show("There are no models on this machine yet. These fit it:\n"));
  return FirstModels().offer("talk to the small demonstration model", "");
}

/// The model that is named, or that of --hf-repo, which is pulled if it is not here.
Result<std::unique_ptr<TalkModel>> load_asked_model(const ChatFlags& flags, const ModelSearch& search) {
  if (flags.hugging_face.empty()) return load_talk_model(flags, search);
  CAIRN_TRY(const loader::CatalogModel model, find_hugging_face_model(flags.hugging_face, search.folder));
  ChatFlags found = flags;
  found.load.model = model.path.string();
  found.load.options.name = model.name;
  return load_talk_model(found, search);
}

/// A server that runs here; or, where this machine has no models, one that is chosen now; or else the demonstration
/// model.
Result<void> chat_alone(const ChatFlags& flags, bool asks_server, int& exit_code) {
  if (asks_server) {
    if (const auto model = find_running_model(flags)) {
      if (!input_is_terminal()) show_aside(model->description());  // else the conversation begins with it
      catch_interrupts();
      converse(flags, *model, exit_code);
      return {};
    }
  }
  ChatFlags found = flags;
  if (input_is_terminal()) {
    std::string about_guide =
        "This is Cairn's small demonstration model; for a real one: cairn chat NAME, where cairn list shows the "
        "names\n";
    CAIRN_TRY(found.load.model, first_model(about_guide));
    if (found.load.model.empty()) CAIRN_TRY_VOID(show(about_guide));
  }
  if (found.load.model.empty()) {
    CAIRN_TRY(found.load.model, guide_model());
  }
  CAIRN_TRY(const auto model, load_talk_model(found, {}));
  catch_interrupts();
  converse(found, *model, exit_code);
  return {};
}

/// `asks_server`: no flag is about a model that is loaded here.
Result<void> talk(const ChatFlags& flags, bool asks_server, int& exit_code) {
  CAIRN_TRY_VOID(begin_talk(flags.saved, flags.system));  // what is wrong is told before a model is loaded
  if (!flags.url.empty()) return chat_with_server(flags, exit_code);
  if (flags.load.model.empty() && flags.hugging_face.empty()) return chat_alone(flags, asks_server, exit_code);
  CAIRN_TRY(const auto model, load_asked_model(flags, {.made = true}));
  catch_interrupts();
  converse(flags, *model, exit_code);
  return {};
}

/// The only message: the words, and what standard input holds where that is no terminal. Empty: a conversation.
Result<std::string> only_message(const ChatFlags& flags) {
  std::string text;
  for (const std::string& word : flags.words) text += (text.empty() ? "" : " ") + word;
  if (input_is_terminal() && flags.words.empty()) return text;
  std::string input;
  if (!input_is_terminal()) {
    CAIRN_TRY(input, read_whole_input());
    input.resize(input.find_last_not_of('\n') + 1);
  }
  if ((input + text).find_first_not_of(" \t\n") == std::string::npos)
    return fail(Code::kInvalidArgument, "there is no message: give a TEXT, or write it to standard input");
  if (input.empty() || text.empty()) return input + text;
  return input + "\n\n" + text;
}

Result<void> run(const ChatFlags& flags, int& exit_code) {
  CAIRN_TRY_VOID(begin_talk(flags.saved, flags.system));
  CAIRN_TRY(const std::string message, only_message(flags));
  CAIRN_TRY(const auto model, load_asked_model(flags, {.folder = flags.models, .pull = true, .made = true}));
  catch_interrupts();
  if (!message.empty()) return answer_once(flags, *model, message);
  converse(flags, *model, exit_code);
  return {};
}

}  // namespace

Result<void> talk_to_file(const std::string& file, int& exit_code) {
  set_log_level(LogLevel::kWarning);
  ChatFlags flags;
  flags.load.model = file;
  return talk(flags, false, exit_code);
}

void add_chat(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "chat",
      "Talk to a model in the terminal: one on this machine, or one on a server; without either, to the server that "
      "runs here, or else to the bundled demo model. If standard input is not a terminal, each line of it is a "
      "message");
  set_help(*command, "cairn chat qwen3:4b --ctx 8192",
           {"--help", "--url", "--model", "--api-key", "--ctx", "--gpu-layers", "--system", "--reasoning",
            "--max-tokens", "--temp", "--seed", "--stats"});
  auto flags = std::make_shared<ChatFlags>();
  flags->load.add_to(*command, false);
  command->get_option("--model")->description(
      std::string(kModelHelp) +
      ". With --url, the name of one of the server's models (default: the demo model, or the "
      "server's default model)");
  add_hugging_face_flag(*command, flags->hugging_face)->excludes("--model");
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
    const Result<void> remote = check_remote_options(*command);
    const Result<void> fits = flags->url.empty() ? Result<void>() : remote;
    const auto done = fits ? talk(*flags, remote.has_value(), exit_code) : fits;
    if (!done) exit_code = report(done.error());
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
  command->get_option("MODEL")->required(false)->description("GGUF file, a name that cairn list shows, or " +
                                                             std::string(kNameHelp));
  add_hugging_face_flag(*command, flags->hugging_face);
  command->add_option("TEXT", flags->words, "The message to answer; text from standard input goes in front of it");
  add_models_flag(*command, flags->models);
  flags->add_to(*command);
  command->callback([command, flags, &exit_code] {
    if (flags->hugging_face.empty() && flags->load.model.empty()) throw CLI::RequiredError("MODEL");
    if (!flags->hugging_face.empty() && !flags->load.model.empty())  // the first word of the TEXT
      flags->words.insert(flags->words.begin(), std::exchange(flags->load.model, {}));
    quiet_log(*command);
    if (const auto done = run(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
