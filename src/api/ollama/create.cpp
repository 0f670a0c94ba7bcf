#include "api/ollama/create.h"

#include <algorithm>
#include <utility>

#include "api/models/made_parameters.h"
#include "api/ollama/pull.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "chat/chat_template.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

/// Whether a template is one of Go's, as Ollama's are: none of Jinja's has such words behind two braces.
bool is_go_template(std::string_view text) {
  constexpr std::string_view kWords[] = {".",      "$",     "if ",     "else",      "end",
                                         "range ", "with ", "define ", "template ", "block "};
  for (size_t at = text.find("{{"); at != std::string_view::npos; at = text.find("{{", at + 2)) {
    std::string_view inside = text.substr(at + 2);
    inside.remove_prefix(std::min(inside.find_first_not_of("- \t\n"), inside.size()));
    if (std::ranges::any_of(kWords, [&](std::string_view word) { return inside.starts_with(word); })) return true;
  }
  return false;
}

void check_template(RequestFields& fields, const std::string& text) {
  if (text.empty()) return;
  if (is_go_template(text)) {
    return fields.reject("template",
                         "is written in Go's language, as Ollama's are, which is not read here: leave it out for the "
                         "base's own, or write it in Jinja");
  }
  const auto made = chat::ChatTemplate::create(chat::trimmed_template(text), "", "");
  if (!made) return fields.reject("template", "cannot be read: " + made.error().message);
  if (!made->shows_messages()) fields.reject("template", "does not show what a user says");
}

void read_message(RequestFields& fields, const ordered_json& message, const std::string& at, ordered_json& messages) {
  if (!message.is_object()) return fields.reject(at, "must be an object");
  RequestFields inner(fields.context(), message, at + ".");
  const std::string role = inner.string("role", "");
  std::string content = inner.string("content", "");
  if (role != "system" && role != "user" && role != "assistant")
    inner.reject("role", "must be system, user or assistant");
  if (content.empty()) inner.reject("content", "is missing or empty");
  inner.only_empty("images", "this model reads text only");
  inner.only_empty("tool_calls", "calls are for conversations, not for what is in front of all of them");
  fields.adopt(inner.finish());
  messages.push_back({{"role", role}, {"content", std::move(content)}});
}

void read_messages(RequestFields& fields, CreateRequest& request) {
  const ordered_json* messages = fields.get("messages");
  if (messages == nullptr) return;
  if (!messages->is_array()) return fields.reject("messages", "must be an array of messages");
  request.has_messages = true;
  for (size_t i = 0; i < messages->size(); ++i)
    read_message(fields, (*messages)[i], fmt::format("messages[{}]", i), request.made.messages);
}

/// An object of file names to digests, as Ollama has it, or an array of file names.
void read_adapters(RequestFields& fields, CreateRequest& request) {
  const ordered_json* adapters = fields.get("adapters");
  if (adapters == nullptr) return;
  request.has_adapters = true;
  const auto add = [&](const ordered_json& name, const ordered_json& digest) {
    if (!name.is_string() || !digest.is_string()) return fields.reject("adapters", "must name files");
    if (!digest.get_ref<const std::string&>().empty()) {
      return fields.reject("adapters",
                           "has a file by its digest, and there are no blobs here: put the adapter into the models "
                           "folder, and name it there with an empty digest");
    }
    const auto good = loader::check_adapter_name(name.get_ref<const std::string&>());
    if (!good) return fields.reject("adapters", "names what cannot be: " + good.error().message);
    request.made.adapters.push_back(name.get<std::string>());
  };
  if (adapters->is_array()) {
    for (const ordered_json& name : *adapters) add(name, "");
  } else if (adapters->is_object()) {
    for (const auto& [name, digest] : adapters->items()) add(name, digest);
  } else {
    fields.reject("adapters", "must be an object or an array of file names");
  }
}

void read_licenses(RequestFields& fields, std::vector<std::string>& licenses) {
  const ordered_json* license = fields.get("license");
  if (license == nullptr) return;
  const auto add = [&](const ordered_json& text) {
    if (!text.is_string()) return fields.reject("license", "must be a string or an array of strings");
    licenses.push_back(text.get<std::string>());
  };
  if (!license->is_array()) return add(*license);
  for (const ordered_json& text : *license) add(text);
}

std::string read_name(RequestFields& fields, std::string_view field, const std::string& name) {
  if (name.empty()) {
    fields.reject(field, "is missing");
    return {};
  }
  auto checked = loader::check_made_name(name);
  if (checked) return *std::move(checked);
  fields.reject(field, "is wrong: " + checked.error().message);
  return {};
}

/// What a model that is made anew takes from another one that was made.
void inherit(const loader::MadeModel& from, CreateRequest& request) {
  loader::MadeModel& made = request.made;
  made.base = from.base;
  if (made.system.empty()) made.system = from.system;
  if (made.chat_template.empty()) made.chat_template = from.chat_template;
  if (made.licenses.empty()) made.licenses = from.licenses;
  if (!request.has_messages) made.messages = from.messages;
  if (!request.has_adapters) made.adapters = from.adapters;
  ordered_json parameters = from.parameters;
  parameters.update(made.parameters);
  made.parameters = std::move(parameters);
}

/// The settings of a server that serves a folder of models, in which some may be made.
Result<const PullSettings*> settings_of(const Exchange& exchange) {
  const PullSettings* const settings = exchange.service.pulls().settings();
  if (exchange.service.models() != nullptr && settings->on_pulled) return settings;
  return fail(Code::kUnsupported,
              "this server serves the files that it was started with: start it without a file to make models");
}

/// Keeps the model, and has the list made anew.
Result<void> keep(Exchange& exchange, const PullSettings& settings, const loader::MadeModel& made) {
  const loader::ModelManager& models = *exchange.service.models();
  const auto other = models.find_exactly(made.name, loader::kEveryModel);
  if (other && other->model().made == nullptr)
    return fail_at("model", Code::kInvalidArgument, "the model {} has a file of its own: choose another name",
                   made.name);
  CAIRN_TRY_VOID(loader::write_made(settings.options.folder, made));
  log_info("{} has made {} of {}", logged_id(exchange.request.id), made.name, printable(made.base));
  settings.on_pulled(loader::made_path(settings.options.folder, made.name));
  if (models.find_exactly(made.name, loader::kEveryModel)) return {};
  return fail(Code::kInternal, "{} was kept, but is not served; the log says why", made.name);
}

/// A text of a Modelfile: as it is, or between quotes if it has several lines or such.
std::string quoted(const std::string& text) {
  const bool plain = text.find_first_of("\n\"#") == std::string::npos && !text.starts_with(' ') && !text.ends_with(' ');
  return plain ? text : fmt::format("\"\"\"{}\"\"\"", text);
}

std::string parameter_lines(const ordered_json& parameters, std::string_view before) {
  std::string lines;
  const auto add = [&](const std::string& name, const ordered_json& value) {
    lines += fmt::format("{}{} {}\n", before, name, dump(value));
  };
  for (const auto& [name, value] : parameters.items()) {
    if (!value.is_array()) add(name, value);
    if (value.is_array())
      for (const ordered_json& each : value) add(name, each);
  }
  return lines;
}

}  // namespace

Result<CreateRequest> parse_create(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  CreateRequest request;
  loader::MadeModel& made = request.made;
  const std::string old_name = fields.string("name", "");
  made.name = read_name(fields, "model", fields.string("model", old_name));
  made.base = fields.string("from", "");
  for (const auto* name : {"quantize", "quantization"})
    fields.only_empty(name, "cairn quantize makes a file of another type");
  fields.only_empty("files", "there are no blobs here: pull the model, or put its file into the models folder");
  for (const auto* name : {"modelfile", "path"}) fields.only_empty(name, "send from, system, template and so on");
  for (const auto* name : {"renderer", "parser", "remote_host", "requires", "info"})
    fields.only_empty(name, "conversations are written by the chat template, and the rest is the file's");
  if (made.base.empty()) fields.reject("from", "is missing: name the model that this one is made of");
  made.system = fields.string("system", "");
  made.chat_template = fields.string("template", "");
  check_template(fields, made.chat_template);
  read_licenses(fields, made.licenses);
  if (const ordered_json* parameters = fields.object("parameters")) {
    const auto read = read_made_parameters(context, *parameters);
    if (!read) fields.adopt(std::unexpected(read.error()));
    made.parameters = *parameters;
  }
  read_messages(fields, request);
  read_adapters(fields, request);
  request.stream = fields.boolean("stream", true);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<CopyRequest> parse_copy(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  CopyRequest request;
  request.source = fields.string("source", "");
  if (request.source.empty()) fields.reject("source", "is missing");
  request.destination = read_name(fields, "destination", fields.string("destination", ""));
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<void> handle_create(Exchange& exchange) {
  if (is_forbidden(exchange, "make")) return {};
  CAIRN_TRY(CreateRequest request, read_body(exchange, parse_create));
  CAIRN_TRY(const PullSettings* settings, settings_of(exchange));
  const auto base = find_listed(exchange.service, request.made.base, exchange.context.scope(), Reading::kNothing);
  if (!base) return fail_at("from", base.error().code, "{}; pull it first", base.error().message);
  if (base->made != nullptr) {
    inherit(*base->made, request);
  } else {
    request.made.base = base->name;
  }
  const auto fits = loader::check_adapters(settings->options.folder, request.made, base->architecture);
  if (!fits) return fail_at("adapters", fits.error().code, "{}", fits.error().message);
  CAIRN_TRY_VOID(keep(exchange, *settings, request.made));
  if (!request.stream) return send_json(exchange, {{"status", "success"}});
  std::string lines = "{\"status\":\"writing manifest\"}\n{\"status\":\"success\"}\n";
  add_to_first_event(lines, exchange.context.wanted_warnings());
  exchange.response->send(200, "application/x-ndjson", std::move(lines));
  return {};
}

Result<void> handle_copy(Exchange& exchange) {
  if (is_forbidden(exchange, "make")) return {};
  CAIRN_TRY(const CopyRequest request, read_body(exchange, parse_copy));
  CAIRN_TRY(const PullSettings* settings, settings_of(exchange));
  const auto source = find_listed(exchange.service, request.source, exchange.context.scope(), Reading::kNothing);
  if (!source) return fail_at("source", source.error().code, "{}", source.error().message);
  loader::MadeModel copy;
  if (source->made != nullptr) copy = *source->made;
  copy.name = request.destination;
  if (source->made == nullptr) copy.base = source->name;
  CAIRN_TRY_VOID(keep(exchange, *settings, copy));
  exchange.response->send(200, "text/plain; charset=utf-8", "");
  return {};
}

std::string modelfile_of(const ListedModel& model) {
  if (model.made == nullptr) return fmt::format("FROM {}\n", utf8_replace_invalid(model.path.filename().string()));
  const loader::MadeModel& made = *model.made;
  std::string text = fmt::format("FROM {}\n", made.base);
  for (const std::string& adapter : made.adapters) text += fmt::format("ADAPTER {}\n", adapter);
  if (!made.chat_template.empty()) text += fmt::format("TEMPLATE {}\n", quoted(made.chat_template));
  if (!made.system.empty()) text += fmt::format("SYSTEM {}\n", quoted(made.system));
  text += parameter_lines(made.parameters, "PARAMETER ");
  for (const ordered_json& message : made.messages)
    text += fmt::format("MESSAGE {} {}\n", message["role"].get<std::string>(),
                        quoted(message["content"].get<std::string>()));
  for (const std::string& license : made.licenses) text += fmt::format("LICENSE {}\n", quoted(license));
  return text;
}

std::string parameters_text(const ListedModel& model) {
  std::string text = fmt::format("num_ctx {}", model.served_context);
  if (model.made == nullptr) return text;
  ordered_json others = model.made->parameters;
  others.erase("num_ctx");
  const std::string lines = parameter_lines(others, "");
  return lines.empty() ? text : text + "\n" + lines.substr(0, lines.size() - 1);
}

}  // namespace cairn::api::ollama
