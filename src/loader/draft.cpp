#include "loader/draft.h"

#include <algorithm>

#include "engine/speculation/draft_model.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace cairn::loader {
namespace {

constexpr kernels::KvType kDraftKvType = kernels::KvType::kF16;

Result<void> check_same_tokens(const tokenizer::Tokenizer& draft, const tokenizer::Tokenizer& tokenizer,
                               const std::string& path) {
  const int32_t common = std::min(draft.size(), tokenizer.size());
  for (int32_t id = 0; id < common; ++id) {
    if (draft.entry(TokenId{id}) == tokenizer.entry(TokenId{id})) continue;
    return fail_at("draft", Code::kInvalidArgument,
                   "{} cannot draft for this model: token {} is \"{}\" there and \"{}\" here; both must have the same "
                   "vocabulary",
                   path, id, draft.entry(TokenId{id}), tokenizer.entry(TokenId{id}));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<gguf::Reader>> open_mtp_file(const std::filesystem::path& path) {
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(path));
  if (!model::is_mtp_file(file)) return nullptr;
  return std::make_unique<gguf::Reader>(std::move(file));
}

Result<std::unique_ptr<DraftModel>> open_draft(const std::filesystem::path& path, const tokenizer::Tokenizer& tokenizer,
                                               kernels::Backend& backend, const MemoryRequest& request) {
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(path));
  CAIRN_TRY(const auto own_tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY_VOID(check_same_tokens(*own_tokenizer, tokenizer, path.string()));
  CAIRN_TRY(const model::ModelMemory needs, model::model_memory(file, backend, {.kv_type = kDraftKvType}));
  CAIRN_TRY(MemoryPlan plan, plan_memory(needs, request, backend.available_bytes()));
  return std::unique_ptr<DraftModel>(new DraftModel{std::move(file), std::move(plan), nullptr});
}

Result<std::unique_ptr<engine::Drafter>> load_draft(DraftModel& draft, kernels::Backend& backend, int32_t vocabulary) {
  model::ModelOptions options;
  options.context_tokens = draft.plan.context_tokens;
  options.kv_type = kDraftKvType;
  options.weights_in_place = draft.plan.weights_in_place();
  CAIRN_TRY(draft.runner, model::load_model(draft.file, backend, options));
  return engine::make_draft_model(*draft.runner, backend, {.kv_pages = draft.plan.kv_pages, .vocabulary = vocabulary});
}

}  // namespace cairn::loader
