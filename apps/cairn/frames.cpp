// cairn frames: talks to a server's frames socket.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/text/text_file.h"
#include "base/text/utf8.h"
#include "commands.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "net/frames/frame_client.h"
#include "output.h"
#include "sampling_flags.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

struct FramesFlags {
  std::string path;
  std::string input;  // "-" or empty
  std::string prompt;
  std::string message;
  bool metrics = false;
  bool lines = false;
  int32_t max_tokens = -1;
  SamplingFlags sampling;
};

constexpr std::string_view kExamples =
    "cairn frames /tmp/cairn.sock --message 'Why is the sky blue?'\n"
    "  cairn frames /tmp/cairn.sock --prompt 'Once upon a time' --max-tokens 50\n"
    "  cairn frames /tmp/cairn.sock --metrics\n"
    "  echo '{\"id\":\"a\",\"prompt\":\"Once\",\"max_tokens\":9}' | cairn frames /tmp/cairn.sock -";

/// The next event; nullopt at the end.
Result<std::optional<ordered_json>> next_event(net::FrameClient& client) {
  CAIRN_TRY(const auto text, client.read());
  if (!text) return std::nullopt;
  auto event = ordered_json::parse(*text, nullptr, false);
  if (!event.is_object()) return fail(Code::kIo, "the server sent something that is not a JSON object");
  return event;
}

std::string text_of(const ordered_json& event, std::string_view name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::unexpected<Error> server_error(const ordered_json& event) {
  return fail_at(text_of(event, "at"), Code::kUnavailable, "the server answered {}: {}", text_of(event, "code"),
                 text_of(event, "message"));
}

ordered_json request(const FramesFlags& flags) {
  ordered_json body = {{"id", "1"}};
  if (flags.message.empty()) {
    body["prompt"] = flags.prompt;
  } else {
    body["messages"] = ordered_json::array({{{"role", "user"}, {"content", flags.message}}});
  }
  if (flags.max_tokens > 0) body["max_tokens"] = flags.max_tokens;
  flags.sampling.add_to_request(body);
  return body;
}

/// Sends one request and prints its text as it comes.
Result<void> ask(net::FrameClient& client, const FramesFlags& flags) {
  const std::string& text = flags.message.empty() ? flags.prompt : flags.message;
  if (const size_t valid = utf8_valid_prefix(text); valid != text.size()) {
    return fail(Code::kInvalidArgument, "the text is not valid UTF-8 at byte {}", valid);
  }
  CAIRN_TRY_VOID(client.send(request(flags).dump()));
  while (true) {
    CAIRN_TRY(const auto event, next_event(client));
    if (!event)
      return fail(Code::kUnavailable,
                  "the server closed the connection before the end of the answer; its log says why");
    const std::string name = text_of(*event, "event");
    if (name == "error") return server_error(*event);
    CAIRN_TRY_VOID(show(text_of(*event, "text")));
    if (name == "eos") return show("\n");
  }
}

Result<void> show_metrics(net::FrameClient& client) {
  CAIRN_TRY_VOID(client.send(R"({"event":"metrics"})"));
  CAIRN_TRY(const auto event, next_event(client));
  if (!event) return fail(Code::kUnavailable, "the server closed the connection; its log says why");
  if (text_of(*event, "event") == "error") return server_error(*event);
  return show(event->dump(2) + "\n");
}

Result<void> send_lines(net::FrameClient& client) {
  for (LineInput lines;;) {
    CAIRN_TRY(const auto line, lines.next());
    if (!line) return {};
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    CAIRN_TRY_VOID(check_line_length(*line));
    CAIRN_TRY_VOID(client.send(*line));
  }
}

/// Sends the lines of standard input to the server and prints the server's events, one per line, until both have ended.
Result<void> pass_lines(net::FrameClient& client, int& exit_code) {
  Result<void> sent;
  std::atomic<bool> all_read = false;
  std::thread sender([&] {
    sent = send_lines(client);
    all_read = true;
    client.end();
  });
  Result<std::optional<std::string>> event;
  while ((event = client.read()) && *event) {
    const auto value = ordered_json::parse(**event, nullptr, false);
    if (value.is_object() && text_of(value, "event") == "error") exit_code = kExitFailed;
    if (!show(**event + "\n")) ::_exit(end_output(kExitFailed));  // the thread may wait for input
  }
  if (!all_read) {
    // The server will not answer further input, and the thread that waits for it cannot be ended otherwise.
    ::_exit(report(event ? Error{Code::kUnavailable, "the server closed the connection", {}} : event.error()));
  }
  sender.join();
  if (!event) return std::unexpected(event.error());
  return sent;
}

Result<void> frames(const FramesFlags& flags, int& exit_code) {
  CAIRN_TRY(auto client,
            net::FrameClient::connect(flags.path, flags.lines ? net::Framing::kLines : net::Framing::kLength));
  if (flags.metrics) return show_metrics(client);
  return flags.input.empty() ? ask(client, flags) : pass_lines(client, exit_code);
}

}  // namespace

void add_frames(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "frames", "Send framed JSON to a server over its Unix socket. It is the one of cairn serve --frames PATH");
  set_help(*command, std::string(kExamples),
           {"--help", "--prompt", "--message", "--metrics", "--lines", "--max-tokens", "--temp", "--seed"});
  auto flags = std::make_shared<FramesFlags>();
  command->add_option("PATH", flags->path, "Path of the socket")->required();
  auto* what = command->add_option_group("What to say");
  what->add_option("-p,--prompt", flags->prompt, "Text to continue; the answer is printed as it arrives");
  what->add_option("-m,--message", flags->message, "Message to answer, with the model's chat template");
  what->add_flag("--metrics", flags->metrics, "Print the server's metrics");
  what->add_option(
          "INPUT", flags->input,
          "- for standard input with one JSON request per line; prints one event per line, and the exit status "
          "is 1 if any was an error")
      ->check(one_of({"-"}));
  what->require_option(1);
  command->add_flag("--lines", flags->lines, "Send and receive plain lines instead of frames");
  command
      ->add_option("-n,--max-tokens", flags->max_tokens, "Maximum tokens of the answer; -1: until the context is full")
      ->check(whole_number(-1, 1 << 30))
      ->capture_default_str();
  flags->sampling.add_to(*command, ShownDefaults::kNone);
  command->callback([flags, &exit_code] {
    if (const auto done = frames(*flags, exit_code); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
