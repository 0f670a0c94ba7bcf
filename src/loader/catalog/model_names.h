/// Which model a name means that somebody has written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loader/catalog/description.h"

namespace cairn::loader {

/// Names that an error lists.
inline constexpr size_t kNamesListedMax = 40;
/// What Ollama's clients put behind a name that has no tag.
inline constexpr std::string_view kLatestTag = ":latest";

/// A model's names; what they point to outlives this.
struct ModelNames {
  std::string_view name;
  std::span<const std::string> aliases;
  ModelKind kind = ModelKind::kChat;
};

/// Whether it is one of the model's names; "NAME:latest" is NAME too, and the other way round.
bool is_called(const ModelNames& model, std::string_view name);

/// The place of the model that is meant: one of that name or alias; else the only one but for upper and lower case;
/// else the only one whose name or alias contains what was asked, where models of the asked kind come first. nullopt:
/// none has such a name, or it is empty. Errors: kInvalidArgument, several are meant equally, which are listed.
Result<std::optional<size_t>> find_by_name(std::span<const ModelNames> models, std::string_view name, ModelKind kind);

/// "a, b, c and 12 more".
std::string list_names(std::span<const ModelNames> models);

}  // namespace cairn::loader
