/// Which model a name means that somebody has written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// The place of the model of that name or alias, or else of the only one but for upper and lower case; of several,
/// models of the asked kind come first. nullopt: none has that name, or it is empty. Errors: kInvalidArgument, several
/// are meant equally, which are listed.
Result<std::optional<size_t>> find_by_whole_name(std::span<const ModelNames> models, std::string_view name,
                                                 ModelKind kind);
/// The same, or else the only model with a name or alias that begins so, or else the only one with one that contains
/// what was asked; models that answer for the asked kind come first. Errors: those of find_by_whole_name.
Result<std::optional<size_t>> find_by_name(std::span<const ModelNames> models, std::string_view name, ModelKind kind);

/// "a, b, c and 12 more".
std::string list_names(std::span<const ModelNames> models);
/// The names of the models, kNearestMax at most, that are most like a name which none has: as a whole, without its
/// folders and tag, or as what stands before its first dash.
std::vector<std::string_view> names_like(std::span<const ModelNames> models, std::string_view name);
/// "; did you mean a, b or c?", of those; empty if there are none.
std::string names_like_hint(std::span<const ModelNames> models, std::string_view name);

}  // namespace cairn::loader
