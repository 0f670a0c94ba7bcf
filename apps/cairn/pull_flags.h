/// Models by their names, for the commands that fetch them.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/pull.h"

namespace cairn {

inline constexpr std::string_view kNameHelp =
    "A model of Ollama's registry (qwen3:4b, NAMESPACE/MODEL:TAG) or of Hugging Face (ORG/REPO[:QUANTISATION], "
    "ORG/REPO/FILE.gguf)";

/// Adds --models: the folder that models are pulled to.
void add_models_flag(CLI::App& command, std::string& folder);
/// Adds --hf-repo, which may be written -hf (values.h): a model of Hugging Face by its repository.
CLI::Option* add_hugging_face_flag(CLI::App& command, std::string& repository);
/// `folder` or the default one, the hubs of the environment and the memory that is free here. Errors: those of
/// default_models_folder and Endpoints::from_environment.
Result<hub::PullOptions> pull_options(const std::string& folder);
/// Pulls with progress on standard error: a bar on a terminal, lines elsewhere. Ctrl-C ends it (kCancelled).
Result<std::vector<std::filesystem::path>> pull_shown(const hub::ModelName& name, const hub::PullOptions& options);

}  // namespace cairn
