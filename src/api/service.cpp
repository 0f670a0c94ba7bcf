#include "api/service.h"

#include "api/chat/turn_store.h"
#include "api/store/file.h"
#include "prompt/tool_call/format.h"

namespace cairn::api {
namespace {

// Harmony addresses a message to a tool.
constexpr std::string_view kHarmonyCall = " to=";

}  // namespace

Result<void> Service::open_store(const std::string& path) {
  CAIRN_TRY(const auto file, StoreFile::open(path));
  CAIRN_TRY(response_store_, responses::ResponseStore::open(file));
  CAIRN_TRY(auto turns, TurnStore::open(file));
  turns_.set_store(std::move(turns));
  return {};
}

std::shared_ptr<const TextBan> Service::call_ban(const LoadedModel& model) {
  const auto [found, made] = call_bans_.try_emplace(model.name);
  if (!made) return found->second;
  std::vector<std::string_view> texts;
  if (model.output_format.tools == ToolFormat::kHarmony) texts.push_back(kHarmonyCall);
  if (const auto* style = tool_call::find_style(model.output_format.tools)) {
    for (const auto& opener : style->openers)
      if (!opener.known_names_only) texts.push_back(opener.text);
  }
  if (!texts.empty()) found->second = std::make_shared<const TextBan>(*model.tokenizer, texts);
  return found->second;
}

}  // namespace cairn::api
