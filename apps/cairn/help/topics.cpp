#include "help/topics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "help/help_format.h"

namespace cairn {
namespace {

constexpr std::string_view kSampling[] = {"Defaults for requests that do not set them"};
constexpr std::string_view kMemory[] = {kSpeedHeading, "Several models"};
constexpr std::string_view kCaching[] = {kCacheHeading, "Requests and answers"};
constexpr std::string_view kDrafts[] = {kDraftHeading};
constexpr std::string_view kTemplates[] = {kTemplateHeading};
constexpr std::string_view kContexts[] = {kRopeHeading};
constexpr std::string_view kAdapters[] = {kSpecialHeading};
constexpr std::string_view kNetwork[] = {"Where the server listens", "Who may ask"};
constexpr std::string_view kCrowds[] = {"Several requests at once"};
constexpr std::string_view kOperating[] = {kOperatingHeading};

constexpr Topic kTopics[] = {
    {"sampling",
     "How the next token is chosen: temperature and its relatives. A request's own field comes first, then these "
     "flags, "
     "then what the model's file recommends.",
     "docs/sampling.md", kSampling},
    {"memory",
     "What a model takes: weights, keys and values of its contexts, and scratch. cairn inspect MODEL --ctx N counts it "
     "before anything is loaded.",
     "docs/engine.md", kMemory},
    {"caching", "What is computed once: beginnings of prompts in memory and on disk, and answers as they were sampled.",
     "docs/kv-disk.md", kCaching},
    {"drafts", "Tokens that are proposed and checked together, so that an answer comes sooner and stays the same.",
     "docs/engine.md", kDrafts},
    {"templates", "How a conversation becomes the text that a model continues, and whether the model thinks first.",
     "docs/api/chat.md", kTemplates},
    {"contexts", "Contexts that are longer than the one that a model was trained for.", "docs/models.md", kContexts},
    {"adapters", "LoRA adapters, directions that steer a model, and flags of single architectures.", "docs/engine.md",
     kAdapters},
    {"network",
     "Where the server listens, and who may ask. It listens on this machine only unless --host says otherwise.",
     "docs/access.md", kNetwork},
    {"crowds", "How many requests run, wait and share a step.", "docs/engine.md", kCrowds},
    {"operating", "The log, traces, config files, and how hard the machine works.", "docs/operating.md", kOperating},
};

}  // namespace

std::span<const Topic> topics() { return kTopics; }

const Topic* topic_named(std::string_view name) {
  const auto* const found = std::ranges::find(kTopics, name, &Topic::name);
  return found == std::end(kTopics) ? nullptr : found;
}

std::string topic_names() {
  std::string names;
  for (const Topic& topic : kTopics) names += fmt::format("{}{}", names.empty() ? "" : ", ", topic.name);
  return names;
}

std::string topic_text(const Topic& topic, const CLI::App& serve) {
  std::vector<std::string> headings(topic.headings.begin(), topic.headings.end());
  return flags_text(serve, std::string(topic.about), headings,
                    fmt::format("Commands that load a model have many of these flags, too. More: {}", topic.page));
}

}  // namespace cairn
