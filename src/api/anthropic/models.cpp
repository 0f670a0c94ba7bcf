#include "api/anthropic/handlers.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/http/pagination.h"
#include "api/serialization/timestamps.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const LoadedModel& model) {
  const int32_t context = model.engine->context_tokens();
  constexpr int64_t kMicroseconds = 1'000'000;
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", model.file.metadata().string("general.name").value_or(model.name)},
          {"created_at", rfc3339(model.created_unix_s * kMicroseconds)},
          {"lifecycle", "active"},
          {"max_input_tokens", context},
          {"max_tokens", context}};
}

Result<ordered_json> list(const Registry& registry, const net::HttpRequest& request) {
  const auto models = registry.list();
  std::vector<std::string> ids;
  for (const SharedModel& model : models) ids.push_back(model->name);
  CAIRN_TRY(const Page page,
            page_of(request, ids, {.limit_max = kModelsMax, .after = "after_id", .before = "before_id"}));
  ordered_json value = {{"data", ordered_json::array()}};
  for (size_t i = page.begin; i < page.end; ++i) value["data"].push_back(describe(*models[i]));
  value.update(page_fields(page, ids));
  return value;
}

Result<ordered_json> one(const Registry& registry, std::string_view id) {
  CAIRN_TRY(const SharedModel model, registry.find_exactly(id));
  return describe(*model);
}

}  // namespace

bool speaks_anthropic(const net::HttpRequest& request) { return !request.header("anthropic-version").empty(); }

void handle_models(const Registry& registry, const net::HttpRequest& request, std::string_view id,
                   net::HttpResponse& response) {
  const auto answer = id.empty() ? list(registry, request) : one(registry, id);
  if (!answer) return send_error(response, answer.error(), ErrorFormat::kAnthropic);
  send_json(response, *answer);
}

}  // namespace cairn::api::anthropic
