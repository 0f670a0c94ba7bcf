/// Help by topic: the flags of `cairn serve` that belong to one question, whatever their groups.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

struct Topic {
  std::string_view name;                       ///< no command is called so
  std::string_view about;                      ///< one sentence or more
  std::string_view page;                       ///< of the documentation, which has the rest
  std::span<const std::string_view> headings;  ///< groups of flags, as serve has them
};

std::span<const Topic> topics();
/// Null: there is none of that name.
const Topic* topic_named(std::string_view name);
/// "sampling, memory, ...".
std::string topic_names();

/// The topic with its flags, which `serve` has. Colours where the terminal shows them.
std::string topic_text(const Topic& topic, const CLI::App& serve);

}  // namespace cairn
