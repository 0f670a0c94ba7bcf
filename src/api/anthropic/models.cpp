#include "api/anthropic/models.h"

#include <string>
#include <vector>

#include "api/http/pagination.h"
#include "api/model_list.h"
#include "api/serialization/timestamps.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

std::string display_name(const ListedModel& model) { return model.title.empty() ? model.name : model.title; }

ordered_json describe(const ListedModel& model) {
  const int64_t context = model.served_context;
  constexpr int64_t kMicroseconds = 1'000'000;
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", display_name(model)},
          {"created_at", rfc3339(model.modified_unix_s * kMicroseconds)},
          {"lifecycle", "active"},
          {"max_input_tokens", context},
          {"max_tokens", context}};
}

Result<ordered_json> list(const Exchange& exchange) {
  const auto models = list_models(exchange.service, exchange.context.scope(), Reading::kHeaders);
  std::vector<std::string> ids;
  for (const ListedModel& model : models) ids.push_back(model.name);
  CAIRN_TRY(const Page page,
            page_of(exchange.request, ids, {.limit_max = kModelsMax, .after = "after_id", .before = "before_id"}));
  ordered_json value = {{"data", ordered_json::array()}};
  for (size_t i = page.begin; i < page.end; ++i) value["data"].push_back(describe(models[i]));
  value.update(page_fields(page, ids));
  return value;
}

}  // namespace

bool speaks_anthropic(const net::HttpRequest& request) { return !request.header("anthropic-version").empty(); }

Result<void> handle_models(Exchange& exchange) {
  const std::string& id = exchange.context.id();
  if (id.empty()) {
    CAIRN_TRY(const ordered_json all, list(exchange));
    return send_json(exchange, all);
  }
  CAIRN_TRY(const ListedModel model, find_listed(exchange.service, id, exchange.context.scope(), Reading::kHeaders));
  return send_json(exchange, describe(model));
}

}  // namespace cairn::api::anthropic
