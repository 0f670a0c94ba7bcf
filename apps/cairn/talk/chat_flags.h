/// Flags of `cairn chat` and `cairn run`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/answer/request.h"
#include "form_flags.h"
#include "load_flags.h"
#include "sampling_flags.h"

namespace cairn {

struct ChatFlags {
  LoadFlags load;
  SamplingFlags sampling;
  FormFlags form;
  std::string url;
  std::string api_key;  ///< for the server; empty: none
  std::string system;
  std::string hugging_face;        ///< --hf-repo: a model of that hub in place of load.model; empty: none
  std::string models;              ///< folder of `cairn run`
  std::string saved;               ///< file of a conversation to go on with (saved_talk.h); empty: a new one
  std::vector<std::string> words;  ///< of the only message, instead of a conversation
  int32_t max_tokens = -1;
  int32_t reasoning_budget = -1;  ///< tokens of thinking; -1: no limit
  std::string stats = "auto";
  bool no_history = false;

  chat::ReasoningOptions reasoning() const;
  /// Whether a line of numbers follows each answer.
  bool shows_stats() const;

  void add_to(CLI::App& command);
};

/// Keeps the log to warnings unless the flag says otherwise.
void quiet_log(const CLI::App& command);
/// Options that load a model have no effect where a server has it. `others`: names of options that have. Error:
/// kInvalidArgument with the first that has none.
Result<void> check_remote_options(const CLI::App& command, std::span<const std::string_view> others = {});

}  // namespace cairn
