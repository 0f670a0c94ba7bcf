#include "chat/answer/reasoning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

// Thinking budgets of efforts that the template knows nothing of.
struct EffortBudget {
  std::string_view effort;
  int32_t tokens;
};
constexpr EffortBudget kEffortBudgets[] = {{"minimal", 512}, {"low", 2'048}, {"medium", 8'192}};

// The nearest that the template has: OpenAI's names end with "xhigh", those of templates that know "max" with that.
std::string_view known_effort(std::string_view effort, const ChatCapabilities& can) {
  if (can.max_effort_tokens == 0) return effort == "max" ? "xhigh" : effort;
  return effort == "xhigh" ? "high" : effort;
}

}  // namespace

int32_t resolve_reasoning(ReasoningOptions options, const ChatCapabilities& can, const TemplateDefaults& defaults,
                          int32_t context_tokens, ordered_json& variables) {
  const auto set = [&](const char* name, ordered_json value) {
    if (!variables.contains(name)) variables[name] = std::move(value);
  };
  const auto set_thinking = [&](bool on, bool as_thinking) {
    set("enable_thinking", on);
    if (as_thinking) set("thinking", on);
  };
  if (options.enabled) set_thinking(*options.enabled, true);
  for (const auto& [name, value] : defaults.variables.items()) set(name.c_str(), value);
  if (!options.enabled && defaults.reasoning) {
    options.enabled = defaults.reasoning;
    set_thinking(*defaults.reasoning, true);
  }
  // llama.cpp's server has it on where the template has a switch that nobody has touched.
  const bool off = variables.value("enable_thinking", ordered_json(true)) == false ||
                   variables.value("thinking", ordered_json(true)) == false;
  set_thinking(!off, can.thinks_in_tags);
  if (!options.effort.empty() && can.effort) set("reasoning_effort", known_effort(options.effort, can));
  const auto effort = variables.find("reasoning_effort");
  if (effort != variables.end() && *effort == "max" && context_tokens < can.max_effort_tokens) *effort = "high";
  if (options.tokens_max) return *options.tokens_max;
  if (options.enabled == false) return 0;
  const auto* budget = std::ranges::find(kEffortBudgets, options.effort, &EffortBudget::effort);
  return !can.effort && budget != std::end(kEffortBudgets) ? budget->tokens : -1;
}

}  // namespace cairn::chat
