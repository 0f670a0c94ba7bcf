// llama-server's slots: what they have, and POST /slots/ID?action=save, restore and erase over the disk tier.
#include "engine/slots.h"

#include <charconv>
#include <chrono>

#include "api/http/tenant.h"
#include "api/llama_cpp/handlers.h"
#include "api/service.h"
#include "base/hash.h"
#include "base/text/printable.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr size_t kFileNameBytesMax = 255;
/// How long an action waits for its turn, for memory and for the disk.
constexpr std::chrono::seconds kActionTimeMax{60};
/// Whether the client is gone is looked at so often.
constexpr std::chrono::milliseconds kActionPoll{200};

struct ActionRequest {
  loader::SharedModel model;
  int32_t slot = 0;
  engine::SlotAction action = engine::SlotAction::kNone;
  std::string filename;
  engine::GenerateRequest generate;  ///< whose it is
  uint64_t tenant = 0;
};

double ms_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
}

ordered_json slot_json(const ListedModel& model, bool drafts, int32_t id, bool busy, int32_t tokens) {
  return {{"id", id},
          {"id_task", -1},
          {"n_ctx", model.served_context},
          {"speculative", drafts},
          {"is_processing", busy},
          {"n_prompt_tokens", tokens}};
}

Result<int32_t> read_slot(std::string_view text, int32_t count) {
  int32_t slot = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc() || end != text.data() + text.size() || slot < 0 || slot >= count) {
    return fail_at("id_slot", Code::kInvalidArgument, "\"{}\" is no slot: this model has 0 to {}",
                   cut_text(text, kQuotedBytesMax), count - 1);
  }
  return slot;
}

Result<engine::SlotAction> read_action(const Exchange& exchange) {
  const std::string action = exchange.request.query_value("action").value_or("");
  if (action == "save") return engine::SlotAction::kSave;
  if (action == "restore") return engine::SlotAction::kRestore;
  if (action == "erase") return engine::SlotAction::kErase;
  return fail_at("action", Code::kInvalidArgument, "?action= must be save, restore or erase, not \"{}\"",
                 cut_text(action, kQuotedBytesMax));
}

Result<std::string> parse_filename(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  fields.get("model");
  if (fields.get("filename") == nullptr) fields.reject("filename", "is missing: say a name, \"talk.bin\"");
  const std::string name = fields.string("filename", "");
  const bool is_path = name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos;
  if (name.empty() || name.size() > kFileNameBytesMax || is_path || printable(name, kFileNameBytesMax) != name)
    fields.reject("filename", fmt::format("must be a name of 1 to {} bytes, without a folder", kFileNameBytesMax));
  CAIRN_TRY_VOID(fields.finish());
  return name;
}

/// nullopt: without a disk tier.
Result<std::optional<ActionRequest>> read_request(Exchange& exchange) {
  ActionRequest request;
  CAIRN_TRY(request.model, asked_model(exchange));
  const engine::Slots* const slots = request.model->engine->slots();
  if (slots == nullptr) return std::nullopt;
  CAIRN_TRY(request.slot, read_slot(exchange.context.id(), slots->count()));
  CAIRN_TRY(request.action, read_action(exchange));
  if (request.action != engine::SlotAction::kErase) {
    CAIRN_TRY(request.filename, read_body(exchange, parse_filename));
  }
  name_owner(exchange.request, request.generate);
  if (request.action == engine::SlotAction::kSave && !request.generate.keep_on_disk)
    return fail(Code::kInvalidArgument, "what this API key asks may not be kept on a disk");
  request.generate.usage_listener = nullptr;  // nothing is computed
  request.tenant = hash64(request.generate.tenant);
  return request;
}

/// What the engine does; returns of how many tokens.
Result<int32_t> act(ActionRequest& request, const engine::Conversation& conversation,
                    const net::HttpResponse& response) {
  engine::Engine& engine = *request.model->engine;
  engine::GenerateRequest generate = request.generate;
  generate.prompt = conversation.tokens;
  // A token of the context is left for an answer. Where the conversation has filled it, it can only begin differently.
  const auto most = static_cast<size_t>(engine.context_tokens()) - 1;
  if (generate.prompt.size() > most) generate.prompt.resize(most);
  generate.salt = conversation.salt;
  generate.slot = request.slot;
  generate.slot_action = request.action;
  generate.max_tokens = 1;
  CAIRN_TRY(const auto stream, engine.submit(std::move(generate)));
  const auto end = steady_clock::now() + kActionTimeMax;
  engine::Events events;
  while (!events.finished) {
    if (steady_clock::now() > end || response.closed())
      return fail(Code::kUnavailable, "it took longer than {} s; try again later", kActionTimeMax.count());
    events = stream->wait(kActionPoll);
  }
  if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(std::move(events.finish.error));
  if (events.finish.reason == engine::FinishReason::kCancelled) return std::unexpected(server_stops());
  return events.finish.usage.cached_tokens;
}

Result<ordered_json> save(ActionRequest& request, engine::Slots& slots, const net::HttpResponse& response) {
  const auto begin = steady_clock::now();
  const auto conversation = slots.find(request.tenant, request.slot);
  if (!conversation) {
    return fail_at("id_slot", Code::kInvalidArgument,
                   "slot {} has nothing that may be kept on a disk: ask something there", request.slot);
  }
  CAIRN_TRY_VOID(act(request, *conversation, response));
  CAIRN_TRY(const engine::OnDisk there, slots.save(request.tenant, request.filename, *conversation));
  if (there.tokens == 0) {
    return fail(Code::kIo,
                "nothing was written: the disk is full or refuses, the day's bytes are spent, or the "
                "conversation is not in memory any more");
  }
  return ordered_json{{"id_slot", request.slot},
                      {"filename", request.filename},
                      {"n_saved", there.tokens},
                      {"n_written", there.bytes},
                      {"timings", {{"save_ms", ms_since(begin)}}}};
}

Result<ordered_json> restore(ActionRequest& request, engine::Slots& slots, const net::HttpResponse& response) {
  const auto begin = steady_clock::now();
  auto conversation = slots.load(request.tenant, request.filename);
  if (!conversation) {
    return fail_at("filename", Code::kInvalidArgument, "\"{}\" cannot be restored for this model: {}", request.filename,
                   conversation.error().text());
  }
  const engine::OnDisk there = slots.on_disk(*conversation);
  CAIRN_TRY(const int32_t tokens, act(request, *conversation, response));
  if (tokens == 0) {
    return fail_at("filename", Code::kInvalidArgument,
                   "the pages of \"{}\" have made room for others; ask again, and they are computed", request.filename);
  }
  return ordered_json{{"id_slot", request.slot},
                      {"filename", request.filename},
                      {"n_restored", tokens},
                      {"n_read", there.bytes},
                      {"timings", {{"restore_ms", ms_since(begin)}}}};
}

Result<ordered_json> erase(ActionRequest& request, engine::Slots& slots, const net::HttpResponse& response) {
  const auto conversation = slots.find(request.tenant, request.slot);
  int32_t tokens = 0;
  if (conversation) {
    CAIRN_TRY(tokens, act(request, *conversation, response));
  }
  slots.clear(request.tenant, request.slot);
  return ordered_json{{"id_slot", request.slot}, {"n_erased", tokens}};
}

Result<ordered_json> run(ActionRequest& request, const net::HttpResponse& response) {
  engine::Slots& slots = *request.model->engine->slots();
  switch (request.action) {
    case engine::SlotAction::kSave:
      return save(request, slots, response);
    case engine::SlotAction::kRestore:
      return restore(request, slots, response);
    case engine::SlotAction::kErase:
    case engine::SlotAction::kNone:
      break;
  }
  return erase(request, slots, response);
}

}  // namespace

Result<void> handle_slots(Exchange& exchange) {
  CAIRN_TRY(const ListedModel model, asked_listed(exchange, Reading::kHeaders));
  CAIRN_TRY(const auto facts, facts_of(exchange.service, model));
  const int32_t count = sequences_of(model);
  const int32_t busy = model.loaded == nullptr ? 0 : model.loaded->engine->stats().active_requests;
  const auto must_have_one = exchange.request.query_value("fail_on_no_slot");
  if (must_have_one && *must_have_one == "1" && busy >= count)
    return fail(Code::kUnavailable, "all {} slots are in use", count);
  const engine::Slots* const of = model.loaded == nullptr ? nullptr : model.loaded->engine->slots();
  std::vector<int32_t> tokens =
      of == nullptr ? std::vector<int32_t>() : of->tokens(hash64(tenant_of(exchange.request)));
  tokens.resize(static_cast<size_t>(count));
  ordered_json list = ordered_json::array();
  for (int32_t i = 0; i < count; ++i)
    list.push_back(slot_json(model, facts->drafts, i, i < busy, tokens[static_cast<size_t>(i)]));
  return send_json(exchange, list);
}

Result<void> handle_slot_action(Exchange& exchange) {
  CAIRN_TRY(auto request, read_request(exchange));
  if (!request) {
    const WireError refused = {501, "not_supported_error", "not_supported", "api_error"};
    exchange.response->send(
        refused.status, "application/json",
        error_body(refused, "this server keeps no slots: start it with --kv-disk FOLDER", exchange.errors));
    return {};
  }
  exchange.service.store_later(
      [request = *std::move(request), response = exchange.response, errors = exchange.errors]() mutable {
        answer_throws(*response, errors, [&] {
          if (response->closed()) return;
          const auto answer = run(request, *response);
          answer ? send_json(*response, *answer) : send_error(*response, answer.error(), errors);
        });
      });
  return {};
}

}  // namespace cairn::api::llama_cpp
