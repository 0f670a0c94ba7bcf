#include "api/ollama/models.h"

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/params/request_notes.h"
#include "api/serialization/timestamps.h"
#include "base/hash.h"
#include "base/text/printable.h"
#include "chat/infill_prompt.h"
#include "chat/output/reasoning.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

// Nothing is ever unloaded.
constexpr std::string_view kNever = "9999-12-31T23:59:59Z";

// As long as Ollama's SHA-256, for which all of the file would have to be read.
std::string digest(const LoadedModel& model) {
  const std::string fingerprint = fmt::format("{:016x}", model.fingerprint);
  std::string hex;
  for (uint64_t part = 0; part < 4; ++part) hex += fmt::format("{:016x}", hash64(fingerprint, part));
  return hex;
}

ordered_json details(const LoadedModel& model) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", model.architecture},
          {"families", {model.architecture}},
          {"parameter_size", human_number(model.parameters)},
          {"quantization_level", model.quantisation}};
}

std::string modified_at(const LoadedModel& model) { return rfc3339(model.created_unix_s * 1'000'000); }

ordered_json entry(const LoadedModel& model) {
  return {{"name", model.name},       {"model", model.name},     {"modified_at", modified_at(model)},
          {"size", model.file_bytes}, {"digest", digest(model)}, {"details", details(model)}};
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

ordered_json model_info(const LoadedModel& model, bool verbose) {
  ordered_json info = ordered_json::object();
  const gguf::Metadata& metadata = model.file.metadata();
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
  info["general.parameter_count"] = model.parameters;
  return info;
}

ordered_json capabilities(const LoadedModel& model) {
  ordered_json list = ordered_json::array();
  if (model.runner != nullptr) {
    list.push_back("completion");
    list.push_back("tools");
    if (thinks(model)) list.push_back("thinking");
    if (can_fill_in(*model.tokenizer)) list.push_back("insert");
  }
  if (model.embedding.dimensions > 0) list.push_back("embedding");
  return list;
}

Result<ordered_json> show(Service& service, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const ShowRequest request, parse_show(body));
  CAIRN_TRY(const SharedModel model, find_model_exactly(service.registry(), request.model));
  ordered_json shown = {{"modelfile", fmt::format("FROM {}\n", model->file_name)},
                        {"parameters", fmt::format("num_ctx {}", model->engine->context_tokens())},
                        {"template", model->template_source},
                        {"details", details(*model)},
                        {"model_info", model_info(*model, request.verbose)},
                        {"capabilities", capabilities(*model)},
                        {"modified_at", modified_at(*model)}};
  if (const auto license = model->file.metadata().string("general.license")) shown["license"] = *license;
  return shown;
}

}  // namespace

Result<SharedModel> find_model_exactly(const Registry& registry, std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  auto found = registry.find_exactly(name);
  if (found || !name.ends_with(kLatest)) return found;
  name.remove_suffix(kLatest.size());
  auto without = name.empty() ? found : registry.find_exactly(name);
  return without ? without : found;
}

Result<SharedModel> find_model(const Registry& registry, std::string_view name) {
  auto found = find_model_exactly(registry, name);
  return found ? found : registry.find(name);
}

std::string shown_name(const Registry& registry, std::string_view name, const LoadedModel& model) {
  return name.empty() || !find_model_exactly(registry, name) ? model.name : std::string(name);
}

std::string human_number(int64_t number) {
  struct Unit {
    double size;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const Unit& unit : kUnits) {
    const double count = static_cast<double>(number) / unit.size;
    if (count >= 10) return fmt::format("{:.0f}{}", count, unit.name);
    if (count >= 1) return fmt::format("{:.1f}{}", count, unit.name);
  }
  return fmt::format("{}", number);
}

Result<PullRequest> parse_pull(const ordered_json& body) {
  RequestFields fields(body);
  PullRequest request;
  const std::string old_name = fields.string("name", "");
  request.model = fields.string("model", old_name);
  if (request.model.empty()) fields.reject("model", "is missing");
  request.stream = fields.boolean("stream", true);
  fields.accept("insecure", "nothing is fetched");
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<ShowRequest> parse_show(const ordered_json& body) {
  RequestFields fields(body);
  ShowRequest request;
  const std::string old_name = fields.string("name", "");
  request.model = fields.string("model", old_name);
  request.verbose = fields.boolean("verbose", false);
  fields.accept({"system", "template", "options"});  // would change a Modelfile, which nothing here has
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

bool thinks(const LoadedModel& model) {
  const auto speaks_of = [&](std::string_view marker) {
    return !marker.empty() && model.template_source.find(marker) != std::string::npos;
  };
  const ReasoningStyle* style = find_style(model.output_format.reasoning);
  return model.chat_template.capabilities().effort || model.output_format.reasoning == ReasoningFormat::kHarmony ||
         (style != nullptr && (speaks_of(style->open) || speaks_of(style->close)));
}

void handle_root(Service&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  response->send(200, "text/plain; charset=utf-8", "Cairn is running");
}

void handle_tags(Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  ordered_json list = {{"models", ordered_json::array()}};
  for (const SharedModel& model : service.registry().list()) list["models"].push_back(entry(*model));
  send_json(*response, list);
}

void handle_ps(Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  ordered_json list = {{"models", ordered_json::array()}};
  for (const SharedModel& model : service.registry().list()) {
    ordered_json running = entry(*model);
    running["expires_at"] = kNever;
    running["size_vram"] = 0;
    running["context_length"] = model->engine->context_tokens();
    list["models"].push_back(std::move(running));
  }
  send_json(*response, list);
}

void handle_show(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  if (const auto shown = show(service, request)) {
    send_json(*response, *shown);
  } else {
    send_error(*response, shown.error(), ErrorFormat::kOllama);
  }
}

void handle_version(Service&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  send_json(*response, {{"version", kOllamaVersion}});
}

void handle_pull(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  const auto done = [&]() -> Result<PullRequest> {
    CAIRN_TRY(const ordered_json body, parse_object(request.body));
    CAIRN_TRY(PullRequest pull, parse_pull(body));
    if (find_model_exactly(service.registry(), pull.model)) return pull;
    return fail_at("model", Code::kUnsupported,
                   "\"{}\" cannot be pulled: models are files that the server is started with, and {} is served",
                   cut_text(pull.model, kQuotedBytesMax), service.registry().list().front()->name);
  }();
  if (!done) return send_error(*response, done.error(), ErrorFormat::kOllama);
  if (!done->stream) return send_json(*response, {{"status", "success"}});
  std::string lines = "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n";
  add_to_first_event(lines, wanted_warnings());
  response->send(200, "application/x-ndjson", std::move(lines));
}

void handle_management(Service&, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  const Error error{Code::kUnsupported,
                    fmt::format("{} is not supported: models are files that the server is started with", request.path),
                    {}};
  send_error(*response, error, ErrorFormat::kOllama);
}

}  // namespace cairn::api::ollama
