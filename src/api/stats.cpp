#include "api/stats.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "api/http/tenant.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/system/process_stats.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

void add(engine::EngineStats& sum, const engine::EngineStats& more) {
  sum.active_requests += more.active_requests;
  sum.waiting_requests += more.waiting_requests;
  sum.total_requests += more.total_requests;
  sum.cancelled_requests += more.cancelled_requests;
  sum.preemptions += more.preemptions;
  sum.tokens_generated += more.tokens_generated;
  sum.prompt_tokens += more.prompt_tokens;
  sum.cached_tokens += more.cached_tokens;
  sum.drafts += more.drafts;
  sum.drafted_tokens += more.drafted_tokens;
  sum.accepted_tokens += more.accepted_tokens;
  sum.steps += more.steps;
  sum.step_time += more.step_time;
  sum.pages_restored += more.pages_restored;
  sum.disk_hits += more.disk_hits;
  sum.disk_tokens += more.disk_tokens;
  sum.disk_misses += more.disk_misses;
  sum.disk_failures += more.disk_failures;
  sum.disk_time += more.disk_time;
  sum.disk_saved += more.disk_saved;
  // The numbers of the disk are those of the folder, which they share.
  sum.has_disk |= more.has_disk;
  if (more.disk.bytes >= sum.disk.bytes) sum.disk = more.disk;
  sum.disk_pages_dropped = std::max(sum.disk_pages_dropped, more.disk_pages_dropped);
  sum.pages_total += more.pages_total;
  sum.pages_cached += more.pages_cached;
  sum.pages_free += more.pages_free;
  sum.states_total += more.states_total;
  sum.states_cached += more.states_cached;
  sum.states_free += more.states_free;
}

ordered_json disk_json(const engine::EngineStats& stats) {
  return {{"hits", stats.disk_hits},
          {"misses", stats.disk_misses},
          {"failures", stats.disk_failures},
          {"tokens", stats.disk_tokens},
          {"seconds", std::chrono::duration<double>(stats.disk_time).count()},
          {"seconds_saved", std::chrono::duration<double>(stats.disk_saved).count()},
          {"pages", stats.disk.pages},
          {"bytes", stats.disk.bytes},
          {"bytes_read", stats.disk.bytes_read},
          {"bytes_written", stats.disk.bytes_written},
          {"bytes_written_today", stats.disk.bytes_today},
          {"pages_evicted", stats.disk.evicted},
          {"pages_dropped", stats.disk_pages_dropped},
          {"pages_damaged", stats.disk.damaged},
          {"writing", stats.has_disk && stats.disk.writing}};
}

ordered_json stats_json(const engine::EngineStats& stats) {
  const int32_t filled = stats.pages_total - stats.pages_free;
  const double seconds = std::chrono::duration<double>(stats.step_time).count();
  return {{"active_requests", stats.active_requests},
          {"waiting_requests", stats.waiting_requests},
          {"total_requests", stats.total_requests},
          {"cancelled_requests", stats.cancelled_requests},
          {"preemptions", stats.preemptions},
          {"tokens_generated", stats.tokens_generated},
          {"prompt_tokens_computed", stats.prompt_tokens},
          {"prompt_tokens_cached", stats.cached_tokens},
          {"draft_tokens", stats.drafted_tokens},
          {"draft_tokens_accepted", stats.accepted_tokens},
          {"steps", stats.steps},
          {"step_seconds", seconds},
          {"cache_usage", stats.pages_total > 0 ? static_cast<double>(filled) / stats.pages_total : 0.0},
          {"pages_total", stats.pages_total},
          {"pages_used", filled - stats.pages_cached},
          {"pages_cached", stats.pages_cached},
          {"pages_free", stats.pages_free},
          {"states_total", stats.states_total},
          {"states_used", stats.states_total - stats.states_free - stats.states_cached},
          {"states_cached", stats.states_cached},
          {"states_free", stats.states_free},
          {"pages_restored", stats.pages_restored},
          {"kv_disk", disk_json(stats)}};
}

ordered_json token_json(const tokenizer::Tokenizer& tokenizer, TokenId token) {
  return {{"id", index(token)}, {"text", utf8_replace_invalid(tokenizer.piece(token, true))}};
}

std::string text_of(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  std::string text;
  for (const TokenId token : tokens) text += tokenizer.piece(token, true);
  return utf8_replace_invalid(text);
}

ordered_json prefix_json(const loader::LoadedModel& model, const engine::PrefixReport& report) {
  ordered_json value = {{"request", report.id},
                        {"model", model.name},
                        {"prompt_tokens", report.prompt_tokens},
                        {"cached_tokens", report.cached_tokens},
                        {"differs_at", nullptr}};
  if (!report.disk_miss.empty()) value["disk"] = {{"tokens", report.disk_tokens}, {"ends_because", report.disk_miss}};
  const auto at = static_cast<size_t>(std::clamp(report.mismatch_position, 0, engine::kReportTokensAround));
  if (report.mismatch_position < 0 || report.mismatch_token == kNoToken || at >= report.prompt_around.size()) {
    value["message"] = fmt::format("{} of {} prompt tokens were cached; nothing else was cached after them",
                                   report.cached_tokens, report.prompt_tokens);
    return value;
  }
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  const std::span<const TokenId> around(report.prompt_around);
  const ordered_json token = token_json(tokenizer, around[at]);
  const ordered_json cached = token_json(tokenizer, report.mismatch_token);
  value["differs_at"] = report.mismatch_position;
  value["prompt"] = {{"before", text_of(tokenizer, around.first(at))},
                     {"token", token},
                     {"after", text_of(tokenizer, around.subspan(at + 1))}};
  value["cached"] = {{"token", cached}};
  value["message"] =
      fmt::format("{} of {} prompt tokens were cached; token {} is {} where the cache has {}", report.cached_tokens,
                  report.prompt_tokens, report.mismatch_position, dump(token["text"]), dump(cached["text"]));
  return value;
}

}  // namespace

ordered_json server_stats(const loader::Registry& registry, const loader::ModelScope& scope) {
  engine::EngineStats sum;
  for (const loader::SharedModel& model : registry.list(scope)) add(sum, model->engine->stats());
  return stats_json(sum);
}

ordered_json model_stats(const loader::LoadedModel& model) {
  ordered_json item = {{"model", model.name}, {"memory_bytes", model.memory.bytes()}};
  item.update(stats_json(model.engine->stats()));
  return item;
}

Result<void> handle_stats(Exchange& exchange) {
  return send_json(exchange, server_stats(exchange.service.registry(), exchange.context.scope()));
}

Result<void> handle_metrics(Exchange& exchange) {
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}};
  for (const loader::SharedModel& model : exchange.service.registry().list(exchange.context.scope()))
    list["data"].push_back(model_stats(*model));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  list["uptime_seconds"] =
      std::max(0.0, std::chrono::duration<double>(now).count() - process_stats().start_unix_seconds);
  return send_json(exchange, list);
}

Result<void> handle_prefix(Exchange& exchange) {
  const auto id = exchange.request.query_value("request");
  if (!id || id->empty()) {
    return fail_at("request", Code::kInvalidArgument,
                   "say which request: /debug/prefix?request=ID, where ID is the `id` of an answer");
  }
  const engine::Party asker = party_of(exchange.request);
  for (const loader::SharedModel& model : exchange.service.registry().list(exchange.context.scope())) {
    const auto report = model->engine->prefix_report(*id, asker);
    if (report) return send_json(exchange, prefix_json(*model, *report));
  }
  return fail_at("request", Code::kNotFound,
                 "no request \"{}\" of yours among the last {} that began to run; the id is that of an answer, with "
                 "-1, -2, ... for its further choices",
                 cut_text(*id, kQuotedBytesMax), engine::kPrefixReportsMax);
}

}  // namespace cairn::api
