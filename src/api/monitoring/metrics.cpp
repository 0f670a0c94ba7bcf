#include "api/monitoring/metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "api/model_list.h"
#include "api/service.h"
#include "api/telemetry/prometheus_text.h"
#include "base/log.h"
#include "base/system/process_stats.h"
#include "base/version.h"

namespace cairn::api {
namespace {

using Seconds = std::chrono::duration<double>;

/// A model's engine as it was when the metrics were asked for.
struct EngineNumbers {
  std::string model;
  engine::EngineStats stats;
  engine::EngineHistograms histograms;
  loader::MemoryPlan plan;
  int32_t context_tokens = 0;
  int32_t sequences_max = 0;
};

std::vector<EngineNumbers> engine_numbers(const loader::Registry& registry, const loader::ModelScope& scope) {
  std::vector<EngineNumbers> all;
  for (const auto& model : registry.list(scope)) {
    const engine::Engine& engine = *model->engine;
    all.push_back(
        {model->name, engine.stats(), engine.histograms(), model->plan, engine.context_tokens(), model->sequences_max});
  }
  return all;
}

double unix_seconds() { return Seconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

int64_t total_of(const HistogramCounts& counts) {
  int64_t total = 0;
  for (const int64_t count : counts.counts) total += count;
  return total;
}

void write_requests(PrometheusText& text, const Telemetry& telemetry) {
  const auto& pairs = telemetry.requests().pairs();
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, const auto& value) {
    text.metric(name, type, help);
    for (const auto& [pair, counts] : pairs) text.sample({{"model", pair.model}, {"key", pair.key}}, value(counts));
  };
  using Counts = RequestMetrics::Counts;
  text.metric("cairn_requests_total", "counter", "Requests that are over, by what the client was told.");
  for (const auto& [pair, counts] : pairs)
    for (const auto& [outcome, count] : counts.requests)
      text.sample({{"model", pair.model},
                   {"key", pair.key},
                   {"protocol", outcome.protocol},
                   {"status", outcome.status == 0 ? "none" : fmt::format("{}", outcome.status)}},
                  count);
  text.metric("cairn_answers_total", "counter", "Answers of models that are over, by how they ended.");
  for (const auto& [pair, counts] : pairs)
    for (const auto& [finish, count] : counts.finishes)
      text.sample({{"model", pair.model}, {"key", pair.key}, {"finish", finish}}, count);
  each("cairn_clients_gone_total", "counter", "Requests whose client did not take the whole answer.",
       [](const Counts& counts) { return counts.gone; });
  each("cairn_prompt_tokens_total", "counter", "Tokens of prompts, cached ones included.",
       [](const Counts& counts) { return counts.prompt_tokens; });
  each("cairn_cached_tokens_total", "counter", "Tokens of prompts that were found in the prefix cache.",
       [](const Counts& counts) { return counts.cached_tokens; });
  each("cairn_output_tokens_total", "counter", "Tokens of answers.",
       [](const Counts& counts) { return counts.output_tokens; });
  each("cairn_request_duration_seconds", "histogram", "From a request's arrival to the end of its exchange.",
       [](const Counts& counts) { return counts.duration.counts(); });
  each("cairn_time_to_first_token_seconds", "histogram", "From a request's arrival to its first token.",
       [](const Counts& counts) { return counts.first_token.counts(); });
  each("cairn_queue_seconds", "histogram", "From a request's submission to a model until that begins with it.",
       [](const Counts& counts) { return counts.queue.counts(); });
  text.gauge("cairn_requests_in_progress", "Requests that have come and are not over.", telemetry.in_progress());
}

/// One metric with a sample for each model.
class PerModel {
 public:
  PerModel(PrometheusText& text, const std::vector<EngineNumbers>& engines) : text_(text), engines_(engines) {}
  template <class Value>
  void operator()(std::string_view name, std::string_view type, std::string_view help, const Value& value) const {
    text_.metric(name, type, help);
    for (const EngineNumbers& engine : engines_) text_.sample({{"model", engine.model}}, value(engine));
  }
  void counter(std::string_view name, std::string_view help, int64_t engine::EngineStats::* count) const {
    (*this)(name, "counter", help, [&](const EngineNumbers& engine) { return engine.stats.*count; });
  }
  void gauge(std::string_view name, std::string_view help, int32_t engine::EngineStats::* value) const {
    (*this)(name, "gauge", help, [&](const EngineNumbers& engine) { return int64_t{engine.stats.*value}; });
  }
  void histogram(std::string_view name, std::string_view help,
                 HistogramCounts engine::EngineHistograms::* counts) const {
    text_.metric(name, "histogram", help);
    for (const EngineNumbers& engine : engines_) {
      const HistogramCounts& read = engine.histograms.*counts;
      if (!read.bounds.empty()) text_.sample({{"model", engine.model}}, read);
    }
  }

 private:
  PrometheusText& text_;
  const std::vector<EngineNumbers>& engines_;
};

void write_scheduling(PrometheusText& text, const std::vector<EngineNumbers>& engines) {
  const PerModel each(text, engines);
  using S = engine::EngineStats;
  each.gauge("cairn_running_sequences", "Choices and texts that run now.", &S::active_requests);
  text.metric("cairn_waiting_sequences", "gauge", "Choices and texts that wait to run.");
  for (const EngineNumbers& engine : engines) {
    const int64_t batch = engine.stats.waiting_batch_requests;
    text.sample({{"model", engine.model}, {"priority", "interactive"}}, engine.stats.waiting_requests - batch);
    text.sample({{"model", engine.model}, {"priority", "batch"}}, batch);
  }
  each.counter("cairn_sequences_total", "Choices and texts that were accepted.", &S::total_requests);
  each.counter("cairn_cancelled_sequences_total", "Of them, those whose client went away or asked to stop.",
               &S::cancelled_requests);
  each.counter("cairn_preemptions_total", "Sequences that gave their pages to others for a while.", &S::preemptions);
  each.counter("cairn_steps_total", "Steps of the model.", &S::steps);
  each.counter("cairn_failed_steps_total", "Steps that failed.", &S::failed_steps);
  each.counter("cairn_limited_steps_total", "Steps whose time was up before all prompts had the rows they wanted.",
               &S::limited_steps);
  each("cairn_rested_seconds_total", "counter", "Time between steps in which nothing was computed (--power-percent).",
       [](const EngineNumbers& engine) { return Seconds(engine.stats.rested_time).count(); });
  each("cairn_last_step_seconds", "gauge", "Time of the last step.",
       [](const EngineNumbers& engine) { return Seconds(engine.stats.last_step_time).count(); });
  each("cairn_average_step_seconds", "gauge", "Time of a step, on an average in which the last ones count most.",
       [](const EngineNumbers& engine) { return Seconds(engine.stats.average_step_time).count(); });
  each.gauge("cairn_last_step_prompt_rows", "Rows of prompts in the last step.", &S::last_prompt_rows);
  each.gauge("cairn_last_step_decode_rows", "Rows of running answers, and their drafts, in the last step.",
             &S::last_decode_rows);
  each.histogram("cairn_step_seconds", "Times of steps.", &engine::EngineHistograms::step_seconds);
  each.histogram("cairn_batch_rows", "Rows of steps.", &engine::EngineHistograms::step_rows);
  each.histogram("cairn_batch_sequences", "Sequences of steps.", &engine::EngineHistograms::step_sequences);
  each.histogram("cairn_inter_token_latency_seconds", "From one step that gave a stream tokens to its next.",
                 &engine::EngineHistograms::inter_token_seconds);
  each.counter("cairn_sampled_tokens_total", "Tokens that were sampled.", &S::tokens_generated);
  each.counter("cairn_computed_prompt_tokens_total", "Tokens of prompts that were computed, again after preemptions.",
               &S::prompt_tokens);
  each.counter("cairn_draft_tokens_total", "Tokens that speculation proposed.", &S::drafted_tokens);
  each.counter("cairn_accepted_draft_tokens_total", "Of them, those that were right.", &S::accepted_tokens);
}

void write_cache(PrometheusText& text, const std::vector<EngineNumbers>& engines) {
  const PerModel each(text, engines);
  using S = engine::EngineStats;
  each.counter("cairn_prefix_lookups_total", "Prompts that were looked up in the prefix cache.", &S::prefix_lookups);
  each.counter("cairn_prefix_hits_total", "Of them, those whose beginning was there.", &S::prefix_hits);
  each.counter("cairn_prefix_evictions_total", "Pages of prompts that gave up their place.", &S::prefix_evictions);
  each.counter("cairn_kv_pages_restored_total", "Pages that came back from the host's memory.", &S::pages_restored);
  text.metric("cairn_kv_pages", "gauge", "KV pages of the group that is fullest.");
  for (const EngineNumbers& engine : engines) {
    const engine::EngineStats& stats = engine.stats;
    const int64_t used = stats.pages_total - stats.pages_free - stats.pages_cached;
    text.sample({{"model", engine.model}, {"state", "used"}}, used);
    text.sample({{"model", engine.model}, {"state", "cached"}}, int64_t{stats.pages_cached});
    text.sample({{"model", engine.model}, {"state", "free"}}, int64_t{stats.pages_free});
  }
  text.metric("cairn_kv_bytes", "gauge", "Bytes of all KV pages, divided as those of the fullest group are.");
  for (const EngineNumbers& engine : engines) {
    const engine::EngineStats& stats = engine.stats;
    if (stats.pages_total == 0) continue;
    int64_t bytes = 0;
    for (const loader::StagePlan& stage : engine.plan.stages) bytes += stage.kv_bytes;
    const auto part = [&](int64_t pages) {
      return static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(pages) / stats.pages_total);
    };
    const int64_t cached = part(stats.pages_cached), free = part(stats.pages_free);
    text.sample({{"model", engine.model}, {"state", "used"}}, bytes - cached - free);
    text.sample({{"model", engine.model}, {"state", "cached"}}, cached);
    text.sample({{"model", engine.model}, {"state", "free"}}, free);
  }
  each.counter("cairn_kv_disk_hits_total", "Prompts that went on from pages of the disk.", &S::disk_hits);
  each.counter("cairn_kv_disk_misses_total", "Prompts of which the disk had no more than memory.", &S::disk_misses);
  each.counter("cairn_kv_disk_failures_total", "Prompts whose pages were wrong or late.", &S::disk_failures);
  each.counter("cairn_kv_disk_tokens_total", "Tokens of prompts whose pages came from the disk.", &S::disk_tokens);
  each("cairn_kv_disk_wait_seconds_total", "counter", "Time of waiting for pages from the disk.",
       [](const EngineNumbers& engine) { return Seconds(engine.stats.disk_time).count(); });
  each("cairn_kv_disk_saved_seconds_total", "counter", "What computing would have taken beyond that, as estimated.",
       [](const EngineNumbers& engine) { return Seconds(engine.stats.disk_saved).count(); });
  text.metric("cairn_recurrent_states", "gauge", "Slots of recurrent states, of models that have them.");
  for (const EngineNumbers& engine : engines) {
    const engine::EngineStats& stats = engine.stats;
    if (stats.states_total == 0) continue;
    const int64_t used = stats.states_total - stats.states_free - stats.states_cached;
    text.sample({{"model", engine.model}, {"state", "used"}}, used);
    text.sample({{"model", engine.model}, {"state", "cached"}}, int64_t{stats.states_cached});
    text.sample({{"model", engine.model}, {"state", "free"}}, int64_t{stats.states_free});
  }
  each("cairn_context_tokens", "gauge", "Tokens that one conversation may have.",
       [](const EngineNumbers& engine) { return int64_t{engine.context_tokens}; });
}

// The folder of --kv-disk is one, which all models share.
void write_disk(PrometheusText& text, const std::vector<EngineNumbers>& engines) {
  cache::disk::StoreCounts counts;
  int64_t dropped = 0;
  for (const EngineNumbers& engine : engines) {
    if (engine.stats.disk.bytes >= counts.bytes) counts = engine.stats.disk;
    dropped = std::max(dropped, engine.stats.disk_pages_dropped);
  }
  text.gauge("cairn_kv_disk_pages", "Pages that the folder holds.", counts.pages);
  text.gauge("cairn_kv_disk_bytes", "Bytes that they take.", counts.bytes);
  text.counter("cairn_kv_disk_read_bytes_total", "Bytes of pages that were read.", counts.bytes_read);
  text.counter("cairn_kv_disk_written_bytes_total", "Bytes of pages that were written.", counts.bytes_written);
  text.gauge("cairn_kv_disk_written_today_bytes", "Bytes of pages that were written since midnight UTC.",
             counts.bytes_today);
  text.counter("cairn_kv_disk_evicted_pages_total", "Pages that made room for others.", counts.evicted);
  text.counter("cairn_kv_disk_dropped_pages_total", "Pages that the queue or the day's bytes had no room for.",
               dropped);
  text.counter("cairn_kv_disk_damaged_pages_total", "Pages and entries that turned out wrong.", counts.damaged);
  text.gauge("cairn_kv_disk_writing", "0 after the disk has refused a write.", int64_t{counts.writing});
}

void write_models(PrometheusText& text, const Service& service, const loader::ModelScope& scope) {
  using enum loader::ModelState;
  const std::vector<ListedModel> models = list_models(service, scope, Reading::kNothing);
  text.metric("cairn_model_state", "gauge", "1 for the state that a model is in.");
  for (const ListedModel& model : models)
    for (const loader::ModelState state : {kUnloaded, kLoading, kLoaded})
      text.sample({{"model", model.name}, {"state", loader::state_name(state)}}, int64_t{model.state == state});
  const auto each = [&](std::string_view name, std::string_view help, const auto& value) {
    text.metric(name, "counter", help);
    for (const ListedModel& model : models)
      if (model.status) text.sample({{"model", model.name}}, value(model.status->loads));
  };
  using Loads = loader::LoadCounts;
  each("cairn_model_loads_total", "Loads of a model that went well.", [](const Loads& loads) { return loads.loads; });
  each("cairn_model_load_failures_total", "Loads of a model that failed: its log has a line of each.",
       [](const Loads& loads) { return loads.failures; });
  each("cairn_model_load_seconds_total", "Time of the loads that went well.",
       [](const Loads& loads) { return Seconds(loads.time).count(); });
}

void write_memory(PrometheusText& text, const std::vector<EngineNumbers>& engines, Service& service) {
  text.metric("cairn_memory_planned_bytes", "gauge", "Memory that a model was planned with.");
  for (const EngineNumbers& engine : engines) {
    int64_t weights = 0, kv = 0, scratch = 0;
    for (const loader::StagePlan& stage : engine.plan.stages) {
      weights += stage.weight_bytes;
      kv += stage.kv_bytes + stage.index_bytes;
      scratch += stage.scratch_bytes;
    }
    text.sample({{"model", engine.model}, {"part", "weights"}}, weights);
    text.sample({{"model", engine.model}, {"part", "kv"}}, kv);
    text.sample({{"model", engine.model}, {"part", "scratch"}}, scratch);
  }
  text.gauge("cairn_request_bytes", "Memory that requests and their answers have.", service.bytes()->used());
  text.gauge("cairn_request_bytes_max", "Memory that they may have (--request-bytes).", service.bytes()->bytes_max());
}

void write_power(PrometheusText& text, const engine::PowerLimit* limit) {
  if (limit == nullptr) return;
  text.gauge("cairn_power_percent", "Percent of the time that engines compute (--power-percent), as it holds now.",
             int64_t{limit->effective_percent()});
  text.gauge("cairn_on_battery", "1 while a battery is all that powers the machine.", int64_t{limit->on_battery()});
}

void write_frames(PrometheusText& text, const net::Traffic& traffic) {
  const int64_t accepted = traffic.accepted, closed = traffic.closed;
  text.counter("cairn_frames_connections_accepted_total", "Connections to the frames socket that were accepted.",
               accepted);
  text.counter("cairn_frames_connections_closed_total", "Of them, those that have ended.", closed);
  text.gauge("cairn_frames_connections", "Of them, those that are open.", accepted - closed);
  text.counter("cairn_frames_refused_total", "Connections and messages of them that were refused.",
               int64_t{traffic.refused});
  text.counter("cairn_frames_received_bytes_total", "Bytes from them.", int64_t{traffic.received_bytes});
  text.counter("cairn_frames_sent_bytes_total", "Bytes to them.", int64_t{traffic.sent_bytes});
}

void write_process(PrometheusText& text, const net::Traffic& traffic, int64_t traces_dropped) {
  const ProcessStats process = process_stats();
  text.metric("cairn_build_info", "gauge", "The program.");
  text.sample({{"version", kVersion}}, int64_t{1});
  text.counter("process_cpu_seconds_total", "Processor time of all threads.", process.cpu_seconds);
  text.gauge("process_resident_memory_bytes", "Memory that the process has.", process.resident_bytes);
  text.gauge("process_virtual_memory_bytes", "Addresses that the process has.", process.virtual_bytes);
  text.gauge("process_open_fds", "Files that are open.", process.open_files);
  text.gauge("process_max_fds", "Files that may be open.", process.files_max);
  text.gauge("process_threads", "Threads.", process.threads);
  text.gauge("process_start_time_seconds", "When the process began.", process.start_unix_seconds);
  text.gauge("cairn_uptime_seconds", "Time since then.", std::max(0.0, unix_seconds() - process.start_unix_seconds));
  const int64_t accepted = traffic.accepted, closed = traffic.closed;
  text.counter("cairn_http_connections_accepted_total", "Connections that were accepted.", accepted);
  text.counter("cairn_http_connections_closed_total", "Connections that have ended.", closed);
  text.gauge("cairn_http_connections", "Connections that are open.", accepted - closed);
  text.counter("cairn_http_refused_total", "What was refused before it was a request.", int64_t{traffic.refused});
  text.counter("cairn_http_received_bytes_total", "Bytes from clients.", int64_t{traffic.received_bytes});
  text.counter("cairn_http_sent_bytes_total", "Bytes to clients.", int64_t{traffic.sent_bytes});
  text.counter("cairn_log_lines_lost_total", "Lines of the log that nobody took.", log_lines_lost());
  text.counter("cairn_traces_dropped_total", "Requests whose trace was dropped.", traces_dropped);
}

/// The names of llama.cpp's server, over all models, for dashboards that are made for it.
void write_llama(PrometheusText& text, const std::vector<EngineNumbers>& engines, const RequestMetrics& requests) {
  engine::EngineStats sum;
  HistogramCounts sequences;
  for (const EngineNumbers& engine : engines) {
    sum.prompt_tokens += engine.stats.prompt_tokens;
    sum.cached_tokens += engine.stats.cached_tokens;
    sum.drafts += engine.stats.drafts;
    sum.drafted_tokens += engine.stats.drafted_tokens;
    sum.accepted_tokens += engine.stats.accepted_tokens;
    sum.tokens_generated += engine.stats.tokens_generated;
    sum.steps += engine.stats.steps;
    sum.active_requests += engine.stats.active_requests;
    sum.waiting_requests += engine.stats.waiting_requests;
    sequences.sum += engine.histograms.step_sequences.sum;
    sequences.counts[0] += total_of(engine.histograms.step_sequences);
  }
  const double prefill = requests.prefill_seconds(), decode = requests.decode_seconds();
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  text.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", sum.prompt_tokens);
  text.counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens found in the cache.", sum.cached_tokens);
  text.counter("llamacpp:prompt_seconds_total", "Time of answers until their first token.", prefill);
  text.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", sum.tokens_generated);
  text.counter("llamacpp:tokens_predicted_seconds_total", "Time of answers from their first token on.", decode);
  text.counter("llamacpp:n_decode_total", "Steps of the model.", sum.steps);
  text.counter("llamacpp:spec_decode_num_drafts_total", "Number of drafts.", sum.drafts);
  text.counter("llamacpp:spec_decode_num_draft_tokens_total", "Number of drafted tokens.", sum.drafted_tokens);
  text.counter("llamacpp:spec_decode_num_accepted_tokens_total", "Number of drafted tokens that were right.",
               sum.accepted_tokens);
  text.counter("llamacpp:n_tokens_max", "Largest number of tokens of a sequence.", requests.sequence_tokens_max());
  text.gauge("llamacpp:n_busy_slots_per_decode", "Average number of sequences in a step.",
             sequences.counts[0] > 0 ? sequences.sum / static_cast<double>(sequences.counts[0]) : 0.0);
  text.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
             rate(sum.prompt_tokens, prefill));
  text.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
             rate(sum.tokens_generated, decode));
  text.gauge("llamacpp:requests_processing", "Number of requests processing.", int64_t{sum.active_requests});
  text.gauge("llamacpp:requests_deferred", "Number of requests that wait.", int64_t{sum.waiting_requests});
}

}  // namespace

std::string prometheus_text(Service& service, const loader::ModelScope& scope) {
  PrometheusText text;
  const std::vector<EngineNumbers> engines = engine_numbers(service.registry(), scope);
  const Telemetry& telemetry = service.telemetry();
  write_requests(text, telemetry);
  write_scheduling(text, engines);
  write_cache(text, engines);
  write_disk(text, engines);
  write_models(text, service, scope);
  write_memory(text, engines, service);
  write_process(text, *service.traffic(), telemetry.traces_dropped()->load());
  write_frames(text, *service.frames_traffic());
  write_power(text, service.options().power.get());
  write_llama(text, engines, telemetry.requests());
  return text.take();
}

Result<void> handle_prometheus(Exchange& exchange) {
  const auto start = static_cast<int64_t>(process_stats().start_unix_seconds);
  exchange.response->send(200, kPrometheusContentType, prometheus_text(exchange.service, exchange.context.scope()),
                          {{"Process-Start-Time-Unix", std::to_string(start)}});  // llama-server's
  return {};
}

}  // namespace cairn::api
