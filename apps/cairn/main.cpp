// The program `cairn`: picks the subcommand. See commands.h.
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/version.h"
#include "commands.h"

namespace cairn {

int report(const Error& error) {
  std::fprintf(stderr, "cairn: %s\n", error.text().c_str());
  return kExitFailed;
}

}  // namespace cairn

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error to handle, not a reason to die
  CLI::App app{
      "Cairn runs large language models from GGUF files and serves them over HTTP.\n"
      "First steps:  cairn serve MODEL.gguf        then open a chat:  cairn chat --url http://127.0.0.1:8080\n"
      "              cairn chat MODEL.gguf         talks to the model without a server",
      "cairn"};
  app.set_version_flag("--version", "cairn " + std::string(cairn::kVersion));
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  int exit_code = 0;
  cairn::add_serve(app, exit_code);
  cairn::add_chat(app, exit_code);
  cairn::add_frames(app, exit_code);
  cairn::add_generate(app, exit_code);
  cairn::add_inspect(app, exit_code);
  cairn::add_quantize(app, exit_code);
  cairn::add_synth(app, exit_code);
  cairn::add_logits(app, exit_code);
  cairn::add_perplexity(app, exit_code);
  cairn::add_tokenize(app, exit_code);
  cairn::add_render(app, exit_code);
  cairn::add_bench(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : cairn::kExitUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "cairn: out of memory\n");
    return cairn::kExitFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cairn: unexpected error: %s\n", error.what());
    return cairn::kExitFailed;
  }
  return exit_code;
}
