/// The smaller model that drafts tokens for another one (speculative decoding).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "engine/speculation/drafter.h"
#include "gguf/reader.h"
#include "loader/memory_plan.h"
#include "model/runner.h"
#include "tokenizer/tokenizer.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::loader {

/// Immutable once loaded; members are destroyed in reverse order.
struct DraftModel {
  gguf::Reader file;
  MemoryPlan plan;
  std::unique_ptr<model::Runner> runner;
};

/// The file, if it is an MTP module (is_mtp_file); null if it is a model. Errors: Reader's.
Result<std::unique_ptr<gguf::Reader>> open_mtp_file(const std::filesystem::path& path);

/// Opens the file and plans its memory. Errors: those of the parts; kInvalidArgument if its tokens are not those of
/// `tokenizer`, which it is to draft.
Result<std::unique_ptr<DraftModel>> open_draft(const std::filesystem::path& path, const tokenizer::Tokenizer& tokenizer,
                                               kernels::Backend& backend, const MemoryRequest& request);
/// Loads its weights; `draft` and `backend` outlive what is made. `vocabulary` is that of the model it drafts for.
Result<std::unique_ptr<engine::Drafter>> load_draft(DraftModel& draft, kernels::Backend& backend, int32_t vocabulary);

}  // namespace cairn::loader
