// cairn ps, cairn stop: the models that a running server has loaded, and one of them away.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "commands.h"
#include "help/help_format.h"
#include "loader/catalog/model_names.h"
#include "output.h"
#include "server_client.h"
#include "table_text.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr size_t kModelNameShownMax = 400;
/// Dates from this year on mean that a model stays.
constexpr int kYearOfNever = 9'000;
constexpr int kWholePercent = 100;

struct PsFlags {
  ServerFlags server;
  bool json = false;
};

struct StopFlags {
  ServerFlags server;
  std::string name;
};

/// "100% CPU", "100% GPU" or "30%/70% CPU/GPU".
std::string processor_text(double bytes, double gpu_bytes) {
  const int gpu = bytes <= 0 ? 0 : static_cast<int>(std::lround(kWholePercent * std::min(1.0, gpu_bytes / bytes)));
  if (gpu == 0) return "100% CPU";
  if (gpu == kWholePercent) return "100% GPU";
  return fmt::format("{}%/{}% CPU/GPU", kWholePercent - gpu, gpu);
}

/// What is left of a time as RFC 3339 has it.
std::string until_text(const std::string& time) {
  std::tm parts{};
  const char* const rest = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return printable(time);
  if (parts.tm_year + 1'900 >= kYearOfNever) return "Forever";
  const std::string_view behind(rest);
  const size_t offset = behind.find_first_of("+-");
  std::tm zone{};
  if (offset != std::string_view::npos) ::strptime(rest + offset, "%z", &zone);
  const std::time_t end = ::timegm(&parts) - zone.tm_gmtoff;
  const std::time_t seconds = end - std::time(nullptr);
  if (seconds <= 0) return "now";
  constexpr std::time_t kMinute = 60, kHour = 3'600;
  const auto text = [](std::time_t number, const char* unit) {
    return fmt::format("{} {}{} from now", number, unit, number == 1 ? "" : "s");
  };
  if (seconds < 2 * kMinute) return text(seconds, "second");
  return seconds < 2 * kHour ? text(seconds / kMinute, "minute") : text(seconds / kHour, "hour");
}

/// The models of an answer, in its member of that name.
Result<ordered_json> models_in(const ServerClient& server, const net::HttpReply& reply, const char* name) {
  CAIRN_TRY(const ordered_json answer, server.object_of(reply));
  ordered_json models = member_of(answer, name);
  if (models.is_array()) return models;
  return fail(Code::kUnavailable, "{} lists no models: is it a Cairn server?", server.shown());
}

std::vector<std::string> row_of(const ordered_json& model) {
  const double bytes = number_member_of(model, "size", 0);
  return {printable(text_member_of(model, "name"), kModelNameShownMax), bytes_text(static_cast<int64_t>(bytes)),
          processor_text(bytes, number_member_of(model, "size_vram", 0)),
          std::to_string(static_cast<int64_t>(number_member_of(model, "context_length", 0))),
          until_text(text_member_of(model, "expires_at"))};
}

Result<void> list_running(const PsFlags& flags) {
  CAIRN_TRY(const auto server, ServerClient::make(flags.server, nullptr));
  CAIRN_TRY(const net::HttpReply reply, server->get("/api/ps"));
  CAIRN_TRY(const ordered_json running, models_in(*server, reply, "models"));
  if (flags.json) {
    print_text(running.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return {};
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"}};
  for (const ordered_json& model : running) rows.push_back(row_of(model));
  CAIRN_TRY(const net::HttpReply all, server->get("/v1/models"));
  for (const ordered_json& model : member_of(ordered_json::parse(all.body, nullptr, false), "data")) {
    if (text_member_of(model, "state") == "loading")
      rows.push_back({printable(text_member_of(model, "id"), kModelNameShownMax), "-", "-", "-", "loading"});
  }
  for (const std::string& line : table_lines(rows)) print("{}\n", line);
  return {};
}

/// A model that the server has.
struct ServerModel {
  std::string name{};
  std::vector<std::string> aliases{};
  bool loaded = false;
};

std::vector<ServerModel> server_models(const ordered_json& list) {
  std::vector<ServerModel> models;
  for (const ordered_json& model : list) {
    ServerModel made{.name = text_member_of(model, "id"), .loaded = text_member_of(model, "state") != "unloaded"};
    for (const ordered_json& alias : member_of(model, "aliases"))
      if (alias.is_string()) made.aliases.push_back(alias);
    models.push_back(std::move(made));
  }
  return models;
}

/// The model that is meant, of those that are loaded or else of all. Errors: kNotFound, with the nearest names;
/// kInvalidArgument, several are meant equally.
Result<ServerModel> meant_model(const std::vector<ServerModel>& models, const std::string& name) {
  std::vector<loader::ModelNames> all, loaded;
  std::vector<size_t> places_of_loaded;
  for (size_t i = 0; i < models.size(); ++i) {
    all.push_back({models[i].name, models[i].aliases});
    if (!models[i].loaded) continue;
    loaded.push_back(all.back());
    places_of_loaded.push_back(i);
  }
  CAIRN_TRY(const std::optional<size_t> running, loader::find_by_name(loaded, name, loader::ModelKind::kChat));
  if (running) return models[places_of_loaded[*running]];
  CAIRN_TRY(const std::optional<size_t> known, loader::find_by_name(all, name, loader::ModelKind::kChat));
  if (known) return models[*known];
  return fail(Code::kNotFound, "the server has no model {}{}; cairn ps lists those that are loaded", printable(name),
              loader::names_like_hint(all, name));
}

Result<void> stop(const StopFlags& flags) {
  CAIRN_TRY(const auto server, ServerClient::make(flags.server, nullptr));
  CAIRN_TRY(const net::HttpReply list, server->get("/v1/models"));
  CAIRN_TRY(const ordered_json listed, models_in(*server, list, "data"));
  CAIRN_TRY(const ServerModel model, meant_model(server_models(listed), flags.name));
  const std::string shown = printable(model.name, kModelNameShownMax);
  if (!model.loaded) {
    print("{} is not loaded\n", shown);
    return {};
  }
  CAIRN_TRY(const net::HttpReply reply, server->post("/v1/models/unload", {{"model", model.name}}));
  CAIRN_TRY(const ordered_json done, server->object_of(reply));
  const std::string state = text_member_of(done, "state");
  if (state != "unloaded") return fail(Code::kUnavailable, "{} is still {}; try again", shown, printable(state));
  print("{} is unloaded\n", shown);
  return {};
}

}  // namespace

void add_ps(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "ps", "List the models that a running server has loaded: their memory, where they compute, and until when");
  set_help(*command, "cairn ps");
  auto flags = std::make_shared<PsFlags>();
  flags->server.add_to(*command);
  command->add_flag("--json", flags->json, "Print the server's answer as JSON, for programs");
  command->callback([flags, &exit_code] {
    if (const auto done = list_running(*flags); !done) exit_code = report(done.error());
  });
}

void add_stop(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "stop",
      "Have a running server unload a model, once it has finished its answers; the next request loads it again");
  set_help(*command, "cairn stop qwen3:4b");
  auto flags = std::make_shared<StopFlags>();
  command->add_option("NAME", flags->name, "Name of a loaded model, or a part that no other name contains")->required();
  flags->server.add_to(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = stop(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
