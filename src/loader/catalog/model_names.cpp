#include "loader/catalog/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/printable.h"

namespace cairn::loader {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(), lower);
  return made;
}

template <class Matches>
bool any_name(const ModelNames& model, const Matches& matches) {
  return matches(model.name) || std::ranges::any_of(model.aliases, matches);
}

bool same_but_for_latest(std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (a.size() < b.size()) std::swap(a, b);
  return a.size() == b.size() + kLatestTag.size() && a.starts_with(b) && a.ends_with(kLatestTag);
}

/// The only one of them, of the asked kind if there are such; nullopt: none.
Result<std::optional<size_t>> only_one(std::span<const ModelNames> models, std::vector<size_t> meant,
                                       std::string_view name, ModelKind kind) {
  const auto of_kind = [&](size_t i) { return models[i].kind == kind; };
  if (std::ranges::any_of(meant, of_kind)) std::erase_if(meant, [&](size_t i) { return !of_kind(i); });
  if (meant.empty()) return std::nullopt;
  if (meant.size() == 1) return meant.front();
  std::vector<ModelNames> several;
  for (const size_t i : meant) several.push_back(models[i]);
  return fail_at("model", Code::kInvalidArgument, "\"{}\" may be any of {}: write more of the name",
                 cut_text(name, kQuotedBytesMax), list_names(several));
}

}  // namespace

bool is_called(const ModelNames& model, std::string_view name) {
  return !name.empty() && any_name(model, [&](std::string_view own) { return same_but_for_latest(own, name); });
}

Result<std::optional<size_t>> find_by_name(std::span<const ModelNames> models, std::string_view name, ModelKind kind) {
  if (name.empty()) return std::nullopt;
  const auto places = [&](const auto& matches) {
    std::vector<size_t> found;
    for (size_t i = 0; i < models.size(); ++i)
      if (any_name(models[i], matches)) found.push_back(i);
    return found;
  };
  if (const auto exact = places([&](std::string_view own) { return own == name; }); !exact.empty())
    return exact.front();
  if (const auto exact = places([&](std::string_view own) { return same_but_for_latest(own, name); }); !exact.empty())
    return exact.front();
  const std::string asked = lowered(name);
  const auto equal = places([&](std::string_view own) { return same_but_for_latest(lowered(own), asked); });
  if (!equal.empty()) return only_one(models, equal, name, kind);
  const auto contains = [&](std::string_view own) { return lowered(own).find(asked) != std::string::npos; };
  return only_one(models, places(contains), name, kind);
}

std::string list_names(std::span<const ModelNames> models) {
  std::string names;
  for (size_t i = 0; i < models.size() && i < kNamesListedMax; ++i) {
    names += names.empty() ? "" : ", ";
    names += models[i].name;
  }
  if (models.size() > kNamesListedMax) names += fmt::format(" and {} more", models.size() - kNamesListedMax);
  return names;
}

}  // namespace cairn::loader
