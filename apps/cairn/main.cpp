// The program `cairn`: dispatches to the subcommand. See commands.h.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/text/printable.h"
#include "build_version.h"
#include "commands.h"
#include "help/help_format.h"
#include "help/topics.h"
#include "help/usage_error.h"
#include "output.h"
#include "values.h"

namespace cairn {

namespace {

/// Maximum bytes of an error's text: the list of all flags or of all tensor types fits.
constexpr size_t kErrorBytesMax = 4'096;

// Prints a text with names that may come from a file, whose bytes must not reach the terminal unescaped.
int tell(std::string_view text, int exit_code) {
  if (output_reader_gone()) return exit_code;
  std::fprintf(stderr, "cairn: %s\n", printable(text, kErrorBytesMax).c_str());
  return exit_code;
}

int tell(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again)
    return tell(fmt::format("unexpected error: {}", error.what()), kExitFailed);
  return tell(
      fmt::format("cannot start a thread: {}; raise the limits of address space (ulimit -v) and processes (ulimit -u), "
                  "or ask for fewer threads with -t",
                  error.code().message()),
      kExitFailed);
}

}  // namespace

int report(const Error& error, int exit_code) { return tell(error.text(), exit_code); }

}  // namespace cairn

namespace {

using namespace cairn;

constexpr const char* kEveryDay = "for every day";
constexpr const char* kServer = "for setting up a server";
constexpr const char* kModels = "for inspecting, converting and measuring models";
constexpr const char* kProgram = "about this program";

/// cairn help [COMMAND or TOPIC]
void add_help(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("help", "Print the help of a command, or of a topic");
  set_help(*command, "cairn help serve --all");
  auto words = std::make_shared<std::vector<std::string>>();
  auto all = std::make_shared<bool>(false);
  command->add_option("COMMAND", *words,
                      "A command, such as serve or config show, or a topic (default: the list of commands)");
  command->add_flag("--all", *all, "All flags, as --help-all prints them");
  command->footer("Topics: " + topic_names());
  command->callback([&app, words, all, &exit_code] {
    const Topic* const topic = words->size() == 1 ? topic_named(words->front()) : nullptr;
    if (topic != nullptr) return print_text(topic_text(*topic, *app.get_subcommand("serve")));
    if (const auto unknown = unknown_command(app, *words)) {
      exit_code = report({Code::kInvalidArgument, *unknown, {}}, kExitUsage);
      return;
    }
    const CLI::App* about = &app;
    for (const std::string& word : *words) {
      const CLI::App* next = subcommand_named(*about, word);
      if (next == nullptr) break;  // what comes behind a command
      about = next;
    }
    const auto* format = dynamic_cast<const HelpFormat*>(about->get_formatter().get());
    if (format != nullptr)
      print_text(
          format->make_help(about, full_name(*about), *all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal));
  });
}

void add_version(CLI::App& app, int&) {
  auto* command = app.add_subcommand("version", "Print the version");
  set_help(*command, "cairn version");
  command->callback([] { print("cairn {}\n", kBuildVersion); });
}

void add_commands(CLI::App& app, int& exit_code) {
  const auto add = [&](const char* group, std::initializer_list<void (*)(CLI::App&, int&)> adders) {
    for (const auto& add_to : adders) {
      const size_t before = app.get_subcommands({}).size();
      add_to(app, exit_code);
      const auto all = app.get_subcommands({});
      for (size_t i = before; i < all.size(); ++i) all[i]->group(group);
    }
  };
  add(kEveryDay, {add_run, add_chat, add_serve, add_list, add_pull, add_rm, add_ps, add_stop, add_doctor});
  add(kServer, {add_config, add_key, add_cache, add_bench, add_frames});
  add(kModels, {add_inspect, add_show, add_generate, add_convert, add_imatrix, add_quantize, add_gguf, add_perplexity,
                add_eval, add_grammar, add_synth, add_logits, add_tokenize, add_render});
  add(kProgram, {add_help, add_version});
  refuse_empty_values(app);
}

/// Prints what was asked for, or what is wrong, and returns the exit code.
int end_parsing(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  if (error.get_exit_code() != 0)
    return report({Code::kInvalidArgument, usage_error(app, error, words), {}}, kExitUsage);
  std::ostringstream wanted;
  app.exit(error, wanted);
  print_text(wanted.str());
  return 0;
}

int run_command(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error to handle, not a reason to be killed
  std::signal(SIGXFSZ, SIG_IGN);  // as is a file that may not become so large
  CLI::App app{"Cairn runs large language models on this machine, and serves them over HTTP.", "cairn"};
  set_help(app,
           "cairn run qwen3:4b            download a model and talk to it\n"
           "  cairn serve                   serve all your models, and a web page for them\n"
           "  cairn chat                    talk to the small model that comes with Cairn");
  app.set_help_flag("-h,--help", "Print this help");
  app.set_help_all_flag("--help-all", "Print all flags, in groups");
  app.set_version_flag("--version", "cairn " + std::string(kBuildVersion), "Print the version");
  app.footer("cairn help TOPIC explains flags by topic: " + topic_names());
  app.require_subcommand(0, 1);
  int exit_code = 0;
  cairn::expand_hugging_face_flag(argc, argv);
  add_commands(app, exit_code);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (const auto unknown = unknown_command(app, words))
    return report({Code::kInvalidArgument, *unknown, {}}, kExitUsage);
  try {
    app.parse(argc, argv);
    // The program, or a command that has others, without one.
    if (needs_subcommand(chosen_command(app))) print_text(app.help());
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error, words);
  } catch (const std::bad_alloc&) {
    return tell("out of memory", kExitFailed);
  } catch (const std::system_error& error) {
    return tell(error);
  } catch (const std::exception& error) {
    return tell(fmt::format("unexpected error: {}", error.what()), kExitFailed);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  cairn::open_standard_descriptors();
  return cairn::end_output(run_command(argc, argv));
}
