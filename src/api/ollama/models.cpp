#include "api/ollama/models.h"

#include <fmt/ranges.h>

#include <optional>

#include "api/model_list.h"
#include "api/ollama/create.h"
#include "api/serialization/timestamps.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

// A model that is not unloaded when it is idle has this date.
constexpr std::string_view kNever = "9999-12-31T23:59:59Z";

ordered_json details(const ListedModel& model) {
  return {{"parent_model", model.made == nullptr ? "" : model.made->base},
          {"format", "gguf"},
          {"family", model.architecture},
          {"families", {model.architecture}},
          {"parameter_size", human_number(model.parameters)},
          {"quantization_level", model.quantisation}};
}

std::string modified_at(const ListedModel& model) { return rfc3339(model.modified_unix_s * 1'000'000); }

ordered_json entry(const ListedModel& model) {
  return {{"name", model.name},       {"model", model.name},      {"modified_at", modified_at(model)},
          {"size", model.file_bytes}, {"digest", model.sha256()}, {"details", details(model)}};
}

std::string expires_at(const ListedModel& model) {
  if (!model.expires) return std::string(kNever);
  return rfc3339(std::chrono::duration_cast<std::chrono::microseconds>(model.expires->time_since_epoch()).count());
}

// Bytes of GPUs' memory that the model has.
int64_t gpu_bytes(const loader::LoadedModel& model) {
  int64_t bytes = 0;
  for (size_t i = 0; i < model.plan.stages.size() && i < model.device.parts.size(); ++i)
    if (model.device.parts[i].gpu) bytes += model.plan.stages[i].bytes();
  return bytes;
}

// Null if there are too many elements, or elements that are themselves arrays.
ordered_json array_json(const gguf::Metadata& metadata, std::string_view key, const gguf::Array& array,
                        size_t elements_max) {
  if (array.size > elements_max || array.type == gguf::ValueType::kArray) return nullptr;
  if (array.type == gguf::ValueType::kString) return array.strings;
  if (array.type == gguf::ValueType::kBool) {
    const auto values = metadata.booleans(key);
    return values ? ordered_json(*values) : ordered_json(nullptr);
  }
  if (array.type == gguf::ValueType::kF32 || array.type == gguf::ValueType::kF64) {
    const auto values = metadata.floats(key);
    return values ? ordered_json(*values) : ordered_json(nullptr);
  }
  const auto values = metadata.integers(key);
  return values ? ordered_json(*values) : ordered_json(nullptr);
}

ordered_json model_info(const gguf::Metadata& metadata, int64_t parameters, bool verbose) {
  ordered_json info = ordered_json::object();
  for (const auto& [key, value] : metadata.values()) {
    info[std::string(key)] = std::visit(
        [&](const auto& data) -> ordered_json {
          if constexpr (std::is_same_v<std::decay_t<decltype(data)>, gguf::Array>) {
            return array_json(metadata, key, data, verbose ? SIZE_MAX : kArrayShownMax);
          } else {
            return data;
          }
        },
        value.data);
  }
  info["general.parameter_count"] = parameters;
  return info;
}

}  // namespace

std::vector<std::string_view> capabilities(const ListedModel& model, const loader::ModelFacts& facts) {
  std::vector<std::string_view> list;
  if (!model.encoder) {
    list.emplace_back("completion");
    list.emplace_back("tools");
    if (facts.thinks) list.emplace_back("thinking");
    if (facts.fills_in) list.emplace_back("insert");
  }
  list.emplace_back("embedding");
  return list;
}

Result<loader::SharedModel> find_model_exactly(const Exchange& exchange, std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  const loader::Registry& registry = exchange.service.registry();
  const loader::ModelScope& scope = exchange.context.scope();
  auto found = registry.find_exactly(name, scope);
  if (found || !name.ends_with(kLatest)) return found;
  name.remove_suffix(kLatest.size());
  auto without = name.empty() ? found : registry.find_exactly(name, scope);
  return without ? without : found;
}

Result<loader::SharedModel> find_model(const Exchange& exchange, std::string_view name) {
  if (exchange.service.models() == nullptr)
    if (auto found = find_model_exactly(exchange, name)) return found;
  return exchange.service.find_model(exchange.context, name);
}

std::string shown_name(const Exchange& exchange, std::string_view name, const loader::LoadedModel& model) {
  return name.empty() || !find_model_exactly(exchange, name) ? model.name : std::string(name);
}

Result<ShowRequest> parse_show(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  ShowRequest request;
  const std::string old_name = fields.string("name", "");
  request.model = fields.string("model", old_name);
  request.verbose = fields.boolean("verbose", false);
  fields.accept({"system", "template", "options"});  // would change a Modelfile, which nothing here has
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<void> handle_tags(Exchange& exchange) {
  ordered_json list = {{"models", ordered_json::array()}};
  for (const ListedModel& model : list_models(exchange.service, exchange.context.scope(), Reading::kNothing))
    list["models"].push_back(entry(model));
  return send_json(exchange, list);
}

Result<void> handle_ps(Exchange& exchange) {
  ordered_json list = {{"models", ordered_json::array()}};
  for (const ListedModel& model : list_models(exchange.service, exchange.context.scope(), Reading::kNothing)) {
    if (model.loaded == nullptr) continue;
    ordered_json running = entry(model);
    running["size"] = model.loaded->plan.bytes();
    running["size_vram"] = gpu_bytes(*model.loaded);
    running["expires_at"] = expires_at(model);
    running["context_length"] = model.served_context;
    list["models"].push_back(std::move(running));
  }
  return send_json(exchange, list);
}

Result<void> handle_show(Exchange& exchange) {
  CAIRN_TRY(const ShowRequest request, read_body(exchange, parse_show));
  CAIRN_TRY(const ListedModel model,
            find_listed(exchange.service, request.model, exchange.context.scope(), Reading::kHeaders));
  CAIRN_TRY(const auto facts, facts_of(exchange.service, model));
  std::optional<gguf::Reader> opened;
  if (model.loaded == nullptr) {
    CAIRN_TRY(opened, gguf::Reader::open(model.path));
  }
  const gguf::Metadata& metadata = opened ? opened->metadata() : model.loaded->file.metadata();
  ordered_json shown = {{"modelfile", modelfile_of(model)},
                        {"parameters", parameters_text(model)},
                        {"template", facts->template_source},
                        {"details", details(model)},
                        {"model_info", model_info(metadata, model.parameters, request.verbose)},
                        {"capabilities", capabilities(model, *facts)},
                        {"modified_at", modified_at(model)}};
  if (const auto license = metadata.string("general.license")) shown["license"] = *license;
  if (model.made == nullptr) return send_json(exchange, shown);
  if (!model.made->system.empty()) shown["system"] = model.made->system;
  if (!model.made->messages.empty()) shown["messages"] = model.made->messages;
  if (!model.made->licenses.empty()) shown["license"] = fmt::format("{}", fmt::join(model.made->licenses, "\n"));
  return send_json(exchange, shown);
}

Result<void> handle_version(Exchange& exchange) { return send_json(exchange, {{"version", kOllamaVersion}}); }

Result<void> handle_push(Exchange& exchange) {
  return fail(Code::kUnsupported, "{} is not supported: this server sends no models to a registry",
              exchange.request.path);
}

}  // namespace cairn::api::ollama
