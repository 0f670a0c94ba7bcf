#include "loader/catalog/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/nearest.h"
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

/// The places of models that have such a name.
template <class Matches>
std::vector<size_t> places_of(std::span<const ModelNames> models, const Matches& matches) {
  std::vector<size_t> found;
  for (size_t i = 0; i < models.size(); ++i)
    if (any_name(models[i], matches)) found.push_back(i);
  return found;
}

/// The only one of them, of the asked kind if there are such, or else of those that answer for it; nullopt: none.
Result<std::optional<size_t>> only_one(std::span<const ModelNames> models, std::vector<size_t> meant,
                                       std::string_view name, ModelKind kind) {
  const auto prefer = [&](const auto& fits) {
    if (std::ranges::any_of(meant, fits)) std::erase_if(meant, [&](size_t i) { return !fits(i); });
  };
  prefer([&](size_t i) { return answers(models[i].kind, kind); });
  prefer([&](size_t i) { return models[i].kind == kind; });
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

Result<std::optional<size_t>> find_by_whole_name(std::span<const ModelNames> models, std::string_view name,
                                                 ModelKind kind) {
  if (name.empty()) return std::nullopt;
  const auto exact = places_of(models, [&](std::string_view own) { return own == name; });
  if (!exact.empty()) return exact.front();
  const auto tagged = places_of(models, [&](std::string_view own) { return same_but_for_latest(own, name); });
  if (!tagged.empty()) return tagged.front();
  const std::string asked = lowered(name);
  const auto equal = [&](std::string_view own) { return same_but_for_latest(lowered(own), asked); };
  return only_one(models, places_of(models, equal), name, kind);
}

Result<std::optional<size_t>> find_by_name(std::span<const ModelNames> models, std::string_view name, ModelKind kind) {
  if (name.empty()) return std::nullopt;
  CAIRN_TRY(const std::optional<size_t> whole, find_by_whole_name(models, name, kind));
  if (whole) return whole;
  const std::string asked = lowered(name);
  const auto begins = [&](std::string_view own) { return lowered(own).starts_with(asked); };
  const auto contains = [&](std::string_view own) { return lowered(own).contains(asked); };
  const std::vector<size_t> beginning = places_of(models, begins), containing = places_of(models, contains);
  const auto of_kind = [&](size_t i) { return answers(models[i].kind, kind); };
  const bool begins_of_kind = std::ranges::any_of(beginning, of_kind);
  const bool takes_beginning = begins_of_kind || (!beginning.empty() && std::ranges::none_of(containing, of_kind));
  return only_one(models, takes_beginning ? beginning : containing, name, kind);
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

std::vector<std::string_view> names_like(std::span<const ModelNames> models, std::string_view name) {
  std::vector<std::string_view> forms;
  std::vector<std::string_view> owners;
  const auto add = [&](std::string_view form, std::string_view owner) {
    forms.push_back(form);
    owners.push_back(owner);
  };
  for (const ModelNames& model : models) {
    add(model.name, model.name);
    for (const std::string& alias : model.aliases) add(alias, model.name);
    std::string_view short_form = model.name.substr(model.name.rfind('/') + 1);
    for (const char end : {':', '-'}) {
      short_form = short_form.substr(0, short_form.find(end));
      add(short_form, model.name);
    }
  }
  std::vector<std::string_view> like;
  for (const std::string_view form : nearest(name, forms, kNearestMax)) {
    for (size_t i = 0; i < forms.size() && like.size() < kNearestMax; ++i)
      if (forms[i] == form && std::ranges::find(like, owners[i]) == like.end()) like.push_back(owners[i]);
  }
  return like;
}

std::string names_like_hint(std::span<const ModelNames> models, std::string_view name) {
  const std::vector<std::string_view> like = names_like(models, name);
  std::string hint;
  for (size_t i = 0; i < like.size(); ++i)
    hint += fmt::format("{}{}", i == 0 ? "; did you mean " : i + 1 < like.size() ? ", " : " or ", printable(like[i]));
  return hint.empty() ? hint : hint + "?";
}

}  // namespace cairn::loader
