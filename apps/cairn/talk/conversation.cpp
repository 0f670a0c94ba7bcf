#include "talk/conversation.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"
#include "base/text/utf8.h"
#include "commands.h"
#include "output.h"
#include "table_text.h"
#include "talk/completion.h"
#include "talk/saved_talk.h"
#include "talk/talk_settings.h"
#include "terminal/message_reader.h"
#include "terminal/slash_commands.h"
#include "terminal/text_width.h"

namespace cairn {

std::atomic<bool> chat_interrupted = false;

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { chat_interrupted = true; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: reading a line is interrupted as well
  sigaction(SIGINT, &action, nullptr);
}

namespace {

using terminal::LineKind;
using terminal::ReadOutcome;

/// Time after which a person is told that the program waits for the end of its input.
constexpr int kSilentMilliseconds = 2'000;

class Conversation {
 public:
  Conversation(const ChatFlags& flags, TalkModel& model, int& exit_code)
      : flags_(flags), model_(model), exit_code_(exit_code), shows_stats_(flags.shows_stats()) {
    reader_ = make_reader();
  }
  void run();

 private:
  enum class Next : uint8_t { kGoOn, kLeave };
  Result<void> begin();
  using Command = Next (Conversation::*)(const std::string& argument);
  struct CommandRow {
    terminal::SlashCommand shown;
    Command run;
  };
  static const std::array<CommandRow, 12> kCommands;
  static std::vector<terminal::SlashCommand> command_list();

  std::unique_ptr<terminal::MessageReader> make_reader();
  terminal::InputHistory open_history() const;
  void say(std::string_view text) const;
  void say_error(const Error& error);
  void complain(const std::string& text);
  void tell_loaded() const;
  Next take(const terminal::TypedMessage& typed);
  Next answer(std::string message);

  Next clear(const std::string&);
  Next set_system(const std::string& text);
  Next use_model(const std::string& name);
  Next set(const std::string& argument);
  Next retry(const std::string&);
  Next save(const std::string& file);
  Next load(const std::string& file);
  Next stats(const std::string& argument);
  Next show_all(const std::string&);
  Next help(const std::string&);
  Next leave(const std::string&) { return Next::kLeave; }

  ChatFlags flags_;
  TalkModel& model_;
  int& exit_code_;
  const bool terminal_ = ::isatty(STDIN_FILENO) == 1;
  const std::vector<terminal::SlashCommand> commands_ = command_list();
  bool shows_stats_;
  std::unique_ptr<terminal::MessageReader> reader_;
  Talk talk_;
  std::string unanswered_;  // the last message, if it had no answer
  AnswerStats last_;
  bool has_answer_ = false;
  int64_t answers_ = 0;
  int64_t tokens_ = 0;
};

const std::array<Conversation::CommandRow, 12> Conversation::kCommands = {{
    {{"/clear", "", "forget the conversation"}, &Conversation::clear},
    {{"/system", "[TEXT]", "set the system message; without a text there is none", {}, "/system "},
     &Conversation::set_system},
    {{"/model", "[NAME]", "go on with another model; without a name, list them"}, &Conversation::use_model},
    {{"/set",
      "[NAME VALUE]",
      "set a sampling parameter, seed, max_tokens, reasoning_budget or system",
      {},
      "/set system "},
     &Conversation::set},
    {{"/retry", "", "have the last message answered again"}, &Conversation::retry},
    {{"/save", "FILE", "write the conversation to a file"}, &Conversation::save},
    {{"/load", "FILE", "go on with a conversation from a file"}, &Conversation::load},
    {{"/stats", "[on|off]", "the numbers of the last answer; on, off: a line after each"}, &Conversation::stats},
    {{"/show", "", "the model, what is set, and how long the conversation is"}, &Conversation::show_all},
    {{"/help", "", "this list", "/?"}, &Conversation::help},
    {{"/exit", "", "leave (also Ctrl-D)", "/quit"}, &Conversation::leave},
    {{"/bye", "", "leave"}, &Conversation::leave},
}};

std::vector<terminal::SlashCommand> Conversation::command_list() {
  std::vector<terminal::SlashCommand> list;
  for (const CommandRow& row : kCommands) list.push_back(row.shown);
  return list;
}

terminal::InputHistory Conversation::open_history() const {
  const auto file = terminal::default_history_file();
  if (flags_.no_history || file.empty()) return {};
  auto history = terminal::InputHistory::open(file);
  if (history) return std::move(*history);
  log_warning("{}", history.error().text());
  return {};
}

std::unique_ptr<terminal::MessageReader> Conversation::make_reader() {
  terminal::ReaderOptions options;
  options.interrupted = &chat_interrupted;
  if (!terminal_) {
    options.prompt.clear();
    return terminal::read_lines(STDIN_FILENO, false, [](std::string_view) {}, std::move(options));
  }
  options.complete = talk_completer(
      commands_, [this] { return model_.models().value_or(std::vector<std::string>()); }, setting_names());
  const int screen = ::isatty(STDOUT_FILENO) == 1 ? STDOUT_FILENO : STDERR_FILENO;
  terminal::ReaderOptions edited = options;
  edited.history = open_history();
  if (auto reader = terminal::edit_messages(STDIN_FILENO, screen, std::move(edited))) return std::move(*reader);
  return terminal::read_lines(STDIN_FILENO, true, [this](std::string_view text) { say(text); }, std::move(options));
}

void Conversation::say(std::string_view text) const {
  if (!terminal_ || ::isatty(STDOUT_FILENO) == 1) {
    show(text);
  } else {  // the answers go to a file
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

void Conversation::say_error(const Error& error) {
  const int code = report(error);
  if (!terminal_) exit_code_ = code;  // a person has seen it
}

void Conversation::complain(const std::string& text) { say_error(fail(Code::kInvalidArgument, "{}", text).error()); }

Result<void> Conversation::begin() {
  CAIRN_TRY(talk_, begin_talk(flags_.saved, flags_.system));
  if (!terminal_) return {};
  show_aside(model_.description());
  say("Type a message; /help lists commands.\n");
  if (!flags_.saved.empty()) tell_loaded();
  return {};
}

void Conversation::tell_loaded() const {
  if (terminal_) say(fmt::format("The conversation goes on from {} messages.\n", talk_.whole().size()));
}

void Conversation::run() {
  if (const auto begun = begin(); !begun) {
    exit_code_ = report(begun.error());
    return;
  }
  for (bool hinted = false;;) {
    if (terminal_) say("\n");
    terminal::TypedMessage typed;
    const auto outcome = reader_->read(typed);
    if (!outcome) {
      exit_code_ = report(outcome.error());
      return;
    }
    if (*outcome == ReadOutcome::kEnded) return;
    if (*outcome == ReadOutcome::kInterrupted) {
      if (terminal_ && !std::exchange(hinted, true)) say("Ctrl-D or /exit leaves.\n");
      continue;
    }
    if (typed.text.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (const auto kept = reader_->remember(typed.text); !kept) log_warning("{}", kept.error().text());
    if (take(typed) == Next::kLeave || output_failed()) return;
  }
}

Conversation::Next Conversation::take(const terminal::TypedMessage& typed) {
  const terminal::ParsedLine line =
      typed.is_block ? terminal::ParsedLine() : terminal::parse_line(typed.text, commands_);
  if (line.kind == LineKind::kCommand) return (this->*kCommands[line.command].run)(line.argument);
  if (line.kind == LineKind::kMessage) return answer(typed.text);
  const std::string name = typed.text.substr(0, typed.text.find(' '));
  complain(fmt::format("there is no command {}; {}", printable(name),
                       line.nearest.empty() ? "/help lists them; to send it as a message, begin with a space"
                                            : fmt::format("did you mean {}?", line.nearest)));
  return Next::kGoOn;
}

Conversation::Next Conversation::answer(std::string message) {
  talk_.messages.push_back({{"role", "user"}, {"content", std::move(message)}});
  unanswered_.clear();
  chat_interrupted = false;
  reader_->set_answering(true);
  auto answered = model_.answer(flags_, talk_.whole());
  reader_->set_answering(false);
  if (!show("\n")) return Next::kLeave;  // nobody reads the answers
  if (!answered) {
    exit_code_ = report(answered.error());
    unanswered_ = talk_.messages.back()["content"];
    talk_.messages.erase(talk_.messages.size() - 1);  // so that the next message does not answer it, too
    return Next::kGoOn;
  }
  exit_code_ = 0;
  talk_.messages.push_back({{"role", "assistant"}, {"content", std::move(answered->text)}});
  last_ = std::move(answered->stats);
  has_answer_ = true;
  ++answers_;
  tokens_ += std::max<int64_t>(0, last_.tokens);
  if (shows_stats_) show_aside(last_.text(model_.context_tokens()));
  return Next::kGoOn;
}

Conversation::Next Conversation::clear(const std::string&) {
  talk_.messages.clear();
  unanswered_.clear();
  if (terminal_) say("The conversation is forgotten.\n");
  return Next::kGoOn;
}

Conversation::Next Conversation::set_system(const std::string& text) {
  talk_.system = text;
  if (terminal_) say(text.empty() ? "There is no system message.\n" : "The system message is set.\n");
  return Next::kGoOn;
}

Conversation::Next Conversation::use_model(const std::string& name) {
  if (!name.empty()) {
    if (const auto used = model_.use(name); !used) {
      say_error(used.error());
    } else {
      show_aside(model_.description());
    }
    return Next::kGoOn;
  }
  const auto names = model_.models();
  if (!names) {
    say_error(names.error());
    return Next::kGoOn;
  }
  std::string text;
  for (const std::string& each : *names)
    text += fmt::format("{} {}\n", each == model_.name() ? "*" : " ", terminal::harmless(each));
  say(text.empty() ? "No model is known by a name; /model takes a file, too.\n" : text);
  return Next::kGoOn;
}

Conversation::Next Conversation::set(const std::string& argument) {
  const size_t blank = std::min(argument.find_first_of(" \t\n="), argument.size());
  const std::string name = argument.substr(0, blank);
  const size_t begin = std::min(argument.find_first_not_of(" \t=", blank), argument.size());
  const std::string value = argument.substr(begin);
  if (name == "system") return set_system(value);
  if (argument.empty()) {
    const std::string text = settings_text(flags_);
    std::string names = "system";
    for (const std::string& each : setting_names()) names += ", " + each;
    say(fmt::format("{}/set NAME VALUE sets one of {}; the value default takes it back.\n", text, names));
    return Next::kGoOn;
  }
  const auto told = value.empty() ? Result<std::string>(fail(Code::kInvalidArgument, "/set {} needs a value", name))
                                  : change_setting(flags_, name, value);
  if (!told) {
    say_error(told.error());
  } else if (terminal_) {
    say(*told + "\n");
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::retry(const std::string&) {
  std::string message = std::exchange(unanswered_, {});
  if (message.empty()) {
    while (!talk_.messages.empty() && talk_.messages.back()["role"] != "user")
      talk_.messages.erase(talk_.messages.size() - 1);
    if (talk_.messages.empty()) {
      complain("there is no message to answer again");
      return Next::kGoOn;
    }
    message = talk_.messages.back()["content"];
    talk_.messages.erase(talk_.messages.size() - 1);
  }
  return answer(std::move(message));
}

Conversation::Next Conversation::save(const std::string& file) {
  if (file.empty()) {
    complain("/save needs the name of a file");
  } else if (const auto saved = save_talk(file, model_.name(), talk_); !saved) {
    say_error(saved.error());
  } else if (terminal_) {
    say(fmt::format("{} messages are in {}.\n", talk_.whole().size(), terminal::harmless(file)));
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::load(const std::string& file) {
  if (file.empty()) {
    complain("/load needs the name of a file");
    return Next::kGoOn;
  }
  auto talk = load_talk(file);
  if (!talk) {
    say_error(talk.error());
    return Next::kGoOn;
  }
  talk_ = std::move(*talk);
  unanswered_.clear();
  tell_loaded();
  return Next::kGoOn;
}

Conversation::Next Conversation::stats(const std::string& argument) {
  if (argument == "on" || argument == "off") {
    shows_stats_ = argument == "on";
  } else if (!argument.empty()) {
    complain("/stats takes on, off or nothing");
  } else if (!has_answer_) {
    say("There is no answer yet.\n");
  } else {
    say(fmt::format("last answer: {}\n{} answers, {} tokens\n", last_.text(model_.context_tokens()), grouped(answers_),
                    grouped(tokens_)));
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::show_all(const std::string&) {
  say(fmt::format("model: {}\n", terminal::harmless(model_.description())));
  if (!talk_.system.empty()) say(fmt::format("system: {}\n", terminal::harmless(talk_.system)));
  const std::string settings = settings_text(flags_);
  if (!settings.empty()) say(settings);
  say(fmt::format("messages: {}\n", talk_.messages.size()));
  return Next::kGoOn;
}

Conversation::Next Conversation::help(const std::string&) {
  say(terminal::commands_help(commands_));
  say("Several lines: Alt-Enter, a backslash at the end of a line, or \"\"\" before and behind them.\n"
      "Ctrl-C stops an answer or drops what is typed. A line that begins with a blank is no command.\n");
  return Next::kGoOn;
}

}  // namespace

void converse(const ChatFlags& flags, TalkModel& model, int& exit_code) { Conversation(flags, model, exit_code).run(); }

Result<void> answer_once(const ChatFlags& flags, TalkModel& model, const std::string& message) {
  CAIRN_TRY(Talk talk, begin_talk(flags.saved, flags.system));
  talk.messages.push_back({{"role", "user"}, {"content", utf8_replace_invalid(message)}});
  CAIRN_TRY(const TalkAnswer answer, model.answer(flags, talk.whole()));
  CAIRN_TRY_VOID(show(answer.text.ends_with('\n') ? "" : "\n"));
  if (flags.shows_stats()) show_aside(answer.stats.text(model.context_tokens()));
  return {};
}

Result<std::string> read_whole_input() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::isatty(STDERR_FILENO) == 1 && ::poll(&input, 1, kSilentMilliseconds) == 0)
    show_aside("waiting for the end of standard input, which is part of the message (</dev/null: none)");
  CAIRN_TRY(const std::string bytes, read_standard_input("the message"));
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool before_feed = bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n';
    if (!before_feed) text += bytes[i];
  }
  return text;
}

}  // namespace cairn
