#include "api/anthropic/handlers.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/http/pagination.h"
#include "api/model_list.h"
#include "api/serialization/timestamps.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

std::string display_name(const ListedModel& model) {
  if (model.loaded == nullptr) return model.name;
  return std::string(model.loaded->file.metadata().string("general.name").value_or(model.name));
}

ordered_json describe(const ListedModel& model) {
  const int64_t context = model.context();
  constexpr int64_t kMicroseconds = 1'000'000;
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", display_name(model)},
          {"created_at", rfc3339(model.modified_unix_s * kMicroseconds)},
          {"lifecycle", "active"},
          {"max_input_tokens", context},
          {"max_tokens", context}};
}

Result<ordered_json> list(const Service& service, const RequestContext& context, const net::HttpRequest& request) {
  const auto models = list_models(service, context.scope());
  std::vector<std::string> ids;
  for (const ListedModel& model : models) ids.push_back(model.name);
  CAIRN_TRY(const Page page,
            page_of(request, ids, {.limit_max = kModelsMax, .after = "after_id", .before = "before_id"}));
  ordered_json value = {{"data", ordered_json::array()}};
  for (size_t i = page.begin; i < page.end; ++i) value["data"].push_back(describe(models[i]));
  value.update(page_fields(page, ids));
  return value;
}

Result<ordered_json> one(const Service& service, const RequestContext& context) {
  CAIRN_TRY(const ListedModel model, find_listed(service, context.id(), context.scope()));
  return describe(model);
}

}  // namespace

bool speaks_anthropic(const net::HttpRequest& request) { return !request.header("anthropic-version").empty(); }

void handle_models(const Service& service, const RequestContext& context, const net::HttpRequest& request,
                   net::HttpResponse& response) {
  const auto answer = context.id().empty() ? list(service, context, request) : one(service, context);
  if (!answer) return send_error(response, answer.error(), ErrorFormat::kAnthropic);
  send_json(response, *answer);
}

}  // namespace cairn::api::anthropic
