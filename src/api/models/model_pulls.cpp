#include "api/models/model_pulls.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/errors.h"
#include "api/params/request_context.h"
#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/system/random_id.h"

namespace cairn::api {

using nlohmann::ordered_json;

struct ModelPulls::Job {
  hub::ModelName name;
  bool stream = true;
  std::string warnings;
  std::shared_ptr<net::HttpResponse> response;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> ended = false;
  std::thread thread;

  /// The first line has the warnings.
  void line(const ordered_json& value) {
    std::string bytes = dump(value) + "\n";
    if (!warnings.empty() && add_to_first_event(bytes, warnings)) warnings.clear();
    response->write(bytes);
  }
};

Result<void> ModelPulls::start(hub::ModelName name, bool stream, std::string warnings,
                               std::shared_ptr<net::HttpResponse> response) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return std::unexpected(server_stops());
  std::erase_if(jobs_, [](const std::shared_ptr<Job>& job) {
    if (!job->ended) return false;
    job->thread.join();
    return true;
  });
  if (jobs_.size() >= kPullsMax)
    return fail(Code::kQueueFull, "{} models are being pulled, which is the limit; try again later", jobs_.size());
  auto job = std::make_shared<Job>();
  job->name = std::move(name);
  job->stream = stream;
  job->warnings = std::move(warnings);
  job->response = response;
  response->on_close([job] { job->cancelled = true; });
  if (stream) response->begin_events({}, {"application/x-ndjson", ""});
  job->thread = std::thread([this, job] {
    answer_throws(*job->response, ErrorFormat::kOllama, [&] { run(*job); });
    job->response.reset();
    job->ended = true;
  });
  jobs_.push_back(std::move(job));
  return {};
}

void ModelPulls::run(Job& job) const {
  log_info("{} pulls {}", logged_id(job.response->request_id()), job.name.text());
  const auto on_event = [&](const hub::PullEvent& event) {
    if (!job.stream) return;
    ordered_json line = {{"status", event.status}};
    if (!event.digest.empty()) line["digest"] = event.digest;
    if (event.progress()) line.update({{"total", event.total}, {"completed", event.completed}});
    job.line(line);
  };
  const auto paths = hub::pull(job.name, settings_->options, on_event, job.cancelled);
  if (paths) {
    log_info("{} has pulled {} to {}", logged_id(job.response->request_id()), job.name.text(), paths->front().string());
    if (settings_->on_pulled) settings_->on_pulled(paths->front());
  } else {
    log_warning("{} has not pulled {}: {}", logged_id(job.response->request_id()), job.name.text(),
                paths.error().text());
  }
  const ordered_json last =
      paths ? ordered_json{{"status", "success"}} : error_body(paths.error(), ErrorFormat::kOllama);
  if (job.stream) {
    job.line(last);
    return job.response->end();
  }
  if (!paths) return send_error(*job.response, paths.error(), ErrorFormat::kOllama);
  job.response->send(200, "application/json", with_warnings(dump(last), job.warnings));
}

void ModelPulls::stop() {
  std::list<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) job->cancelled = true;
  for (const auto& job : jobs) job->thread.join();
}

}  // namespace cairn::api
