/// The model that a command is given: a file or a name, which every command takes alike.
#pragma once

#include <string>

#include "api/params/generation_defaults.h"
#include "base/error.h"
#include "loader/catalog/catalog.h"
#include "loader/load_options.h"

namespace cairn {

/// What the help says of such an argument.
inline constexpr const char* kModelHelp = "GGUF file (of a split model, any part), or a name that cairn list shows";

struct ModelSearch {
  std::string folder{};  ///< of Cairn's own models; empty: the default one
  bool pull = false;     ///< a hub's model that is not here is pulled, with progress on standard error
  bool made = false;     ///< models that were made of others are taken, not refused
};

/// The model of that name: a file; else what `cairn list` shows under the name or alias, in any case; else what was
/// pulled by that name of a hub; else the only one of the list that begins so, or contains it; else, with `pull`, what
/// the hub has. Nothing but the path is known of a file, which need not be one: opening it says what is wrong. Errors:
/// kNotFound, with the nearest names and what to do; kInvalidArgument, several are meant equally, or what was made of
/// another model is not taken; those of a pull.
Result<loader::CatalogModel> find_model(const std::string& name, const ModelSearch& search = {});
/// The file of that model. Errors: those of find_model.
Result<std::string> find_model_file(const std::string& name);
/// The file that --draft names: that of a model, as find_model has it, or that of a drafting head, which is found as an
/// adapter is. `folder`: of Cairn's own models; empty: the default one. Errors: those of find_model.
Result<std::string> find_draft_file(const std::string& name, const std::string& folder);
/// The file that --lora names: a file; else one in that folder, with or without its ".gguf"; else what was pulled by
/// that name of a hub. Errors: kNotFound, with the nearest names of the folder.
Result<std::string> find_adapter_file(const std::string& name, const std::string& folder);
/// The model of Hugging Face's hub that --hf-repo names, as llama-server's flag does: ORG/REPO, ORG/REPO:QUANTISATION
/// or ORG/REPO/FILE.gguf. It is pulled if it is not here. Errors: those of find_model.
Result<loader::CatalogModel> find_hugging_face_model(const std::string& repository, const std::string& folder);

/// What a model that was made of another one says, in place of what the base is loaded and asked with. `folder`: of
/// Cairn's own models. Errors: those of its parameters.
Result<void> apply_made(const loader::MadeModel& made, const std::string& folder, loader::LoadOptions& options,
                        api::GenerationDefaults& defaults);

}  // namespace cairn
