// The program `cairn`: dispatches to the subcommand. See commands.h.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <system_error>

#include "base/text/printable.h"
#include "build_version.h"
#include "commands.h"
#include "output.h"
#include "values.h"

namespace cairn {

namespace {

/// Maximum bytes of an error's text: the list of all flags or of all tensor types fits.
constexpr size_t kErrorBytesMax = 4'096;

// Prints a text with names that may come from a file, whose bytes must not reach the terminal unescaped.
int tell(std::string_view text) {
  if (output_reader_gone()) return kExitFailed;
  std::fprintf(stderr, "cairn: %s\n", printable(text, kErrorBytesMax).c_str());
  return kExitFailed;
}

int tell(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again)
    return tell(fmt::format("unexpected error: {}", error.what()));
  return tell(
      fmt::format("cannot start a thread: {}; raise the limits of address space (ulimit -v) and processes (ulimit -u), "
                  "or ask for fewer threads with -t",
                  error.code().message()));
}

}  // namespace

int report(const Error& error) { return tell(error.text()); }

}  // namespace cairn

namespace {

void add_commands(CLI::App& app, int& exit_code) {
  cairn::add_serve(app, exit_code);
  cairn::add_config(app, exit_code);
  cairn::add_doctor(app, exit_code);
  cairn::add_chat(app, exit_code);
  cairn::add_run(app, exit_code);
  cairn::add_pull(app, exit_code);
  cairn::add_rm(app, exit_code);
  cairn::add_ps(app, exit_code);
  cairn::add_stop(app, exit_code);
  cairn::add_show(app, exit_code);
  cairn::add_frames(app, exit_code);
  cairn::add_generate(app, exit_code);
  cairn::add_inspect(app, exit_code);
  cairn::add_list(app, exit_code);
  cairn::add_quantize(app, exit_code);
  cairn::add_synth(app, exit_code);
  cairn::add_logits(app, exit_code);
  cairn::add_perplexity(app, exit_code);
  cairn::add_tokenize(app, exit_code);
  cairn::add_render(app, exit_code);
  cairn::add_grammar(app, exit_code);
  cairn::add_key(app, exit_code);
  cairn::add_bench(app, exit_code);
  cairn::add_cache(app, exit_code);
  cairn::refuse_meaningless_values(app);
}

int run_command(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error to handle, not a reason to be killed
  std::signal(SIGXFSZ, SIG_IGN);  // as is a file that may not become so large
  CLI::App app{
      "Cairn runs large language models from GGUF files and serves them over HTTP.\n"
      "First steps:  cairn serve MODEL.gguf        then open a chat:  cairn chat --url http://127.0.0.1:8080\n"
      "              cairn chat MODEL.gguf         talks to the model without a server\n"
      "              cairn run qwen3:4b            gets a model from a hub and talks to it",
      "cairn"};
  app.set_version_flag("--version", "cairn " + std::string(cairn::kBuildVersion));
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  int exit_code = 0;
  cairn::expand_hugging_face_flag(argc, argv);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help;
    const int code = app.exit(error, help);
    cairn::print_text(help.str());
    return code == 0 ? 0 : cairn::kExitUsage;
  } catch (const std::bad_alloc&) {
    return cairn::tell("out of memory");
  } catch (const std::system_error& error) {
    return cairn::tell(error);
  } catch (const std::exception& error) {
    return cairn::tell(fmt::format("unexpected error: {}", error.what()));
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  cairn::open_standard_descriptors();
  return cairn::end_output(run_command(argc, argv));
}
