#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/text/printable.h"

namespace cairn::bench {
namespace {

double seconds_between(TimePoint begin, TimePoint end) { return std::chrono::duration<double>(end - begin).count(); }

/// The heading "                  mean       p50       p95       p99     worst"; row() prints a row under it.
std::string heading() {
  return fmt::format("  {:<22}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "p50", "p95", "p99", "worst");
}

std::string row(std::string_view name, std::vector<float> values) {
  if (values.empty()) return fmt::format("  {:<22}{:>10}\n", name, "none");
  std::ranges::sort(values);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return fmt::format("  {:<22}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n", name, mean, percentile(values, 50),
                     percentile(values, 95), percentile(values, 99), values.back());
}

std::string csv_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text, text.size())) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

double percentile(const std::vector<float>& sorted, double percent) {
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(percent / 100 * count)));
  return sorted[std::min(rank, sorted.size()) - 1];
}

void Report::add(Sample sample) {
  Line line;
  std::vector<float> gaps = std::move(sample.gaps_ms);
  sample.gaps_ms = {};
  line.sample = std::move(sample);
  auto& kept = gaps_[static_cast<size_t>(line.sample.mix)];
  if (line.sample.answered() && gaps_count_ < kGapsMax) {
    kept.insert(kept.end(), gaps.begin(), gaps.end());
    gaps_count_ += gaps.size();
  }
  std::ranges::sort(gaps);
  if (!gaps.empty()) {
    line.gap_p50 = static_cast<float>(percentile(gaps, 50));
    line.gap_p95 = static_cast<float>(percentile(gaps, 95));
    line.gap_worst = gaps.back();
  }
  lines_.push_back(std::move(line));
}

bool Report::any_answered() const {
  return std::ranges::any_of(lines_, [](const Line& line) { return line.sample.answered(); });
}

std::string Report::section(const std::vector<const Line*>& lines, const std::vector<float>& gaps) const {
  int64_t answered = 0, prompt = 0, cached = 0, completion = 0;
  bool counted_chunks = false;
  std::vector<float> first, total;
  std::map<std::pair<int, bool>, std::pair<int64_t, std::string>> failures;  // keys: status, and whether a stream broke
  TimePoint end = start_;
  for (const Line* line : lines) {
    const Sample& sample = line->sample;
    end = std::max(end, sample.ended);
    if (!sample.answered()) {
      auto& [count, example] = failures[{sample.status, sample.chunks > 0}];
      if (count++ == 0) example = sample.error;
      continue;
    }
    ++answered;
    prompt += sample.prompt_tokens;
    cached += sample.cached_tokens;
    completion += sample.completion_tokens;
    counted_chunks |= !sample.has_usage;
    if (sample.first_ms) first.push_back(static_cast<float>(*sample.first_ms));
    total.push_back(static_cast<float>(sample.total_ms()));
  }
  const double seconds = std::max(seconds_between(start_, end), 1e-9);
  std::string text = fmt::format("  {} requests in {:.2f} s: {} answered, {} failed\n", lines.size(), seconds, answered,
                                 static_cast<int64_t>(lines.size()) - answered);
  for (const auto& [kind, failure] : failures) {
    const std::string status = kind.first == 0 ? "no answer" : fmt::format("status {}", kind.first);
    text += fmt::format("    {} x {}{}, first: {}\n", failure.first, status, kind.second ? ", broken off" : "",
                        printable(failure.second, kEchoBytesMax));
  }
  text += fmt::format("  {:.1f} tokens/s, {:.2f} requests/s; {} tokens answered{}\n",
                      static_cast<double>(completion) / seconds, static_cast<double>(answered) / seconds, completion,
                      counted_chunks ? " (counted by chunks: the server sent no usage)" : "");
  text += fmt::format("  {} prompt tokens, {} of them cached ({:.1f} %)\n", prompt, cached,
                      prompt > 0 ? 100.0 * static_cast<double>(cached) / static_cast<double>(prompt) : 0.0);
  text += heading() + row("to first token", first) + row("between tokens", gaps) + row("whole answer", total);
  return text;
}

std::string Report::table(const std::string& title) const {
  std::string text = title + "\n";
  std::vector<const Line*> all;
  std::vector<const Line*> by_mix[kMixes];
  std::vector<float> gaps;
  int mixes = 0;
  for (const Line& line : lines_) {
    all.push_back(&line);
    auto& group = by_mix[static_cast<size_t>(line.sample.mix)];
    if (group.empty()) ++mixes;
    group.push_back(&line);
  }
  for (const auto& of_mix : gaps_) gaps.insert(gaps.end(), of_mix.begin(), of_mix.end());
  text += section(all, gaps);
  if (gaps_count_ >= kGapsMax) text += fmt::format("  (gaps: of the first {})\n", gaps_count_);
  if (mixes < 2) return text;
  for (int i = 0; i < kMixes; ++i) {
    if (by_mix[i].empty()) continue;
    text += fmt::format("\n{} only\n", mix_name(static_cast<Mix>(i))) + section(by_mix[i], gaps_[i]);
  }
  return text;
}

std::string Report::csv() const {
  std::vector<const Line*> lines;
  for (const Line& line : lines_) lines.push_back(&line);
  std::ranges::sort(lines, {}, [](const Line* line) { return line->sample.index; });
  std::string text =
      "index,mix,start_s,status,first_ms,total_ms,prompt_tokens,cached_tokens,completion_tokens,chunks,gap_p50_ms,"
      "gap_p95_ms,gap_worst_ms,error\n";
  for (const Line* line : lines) {
    const Sample& sample = line->sample;
    text += fmt::format("{},{},{:.6f},{},{},{:.3f},{},{},{},{},{:.3f},{:.3f},{:.3f},{}\n", sample.index,
                        mix_name(sample.mix), seconds_between(start_, sample.due), sample.status,
                        sample.first_ms ? fmt::format("{:.3f}", *sample.first_ms) : "", sample.total_ms(),
                        sample.prompt_tokens, sample.cached_tokens, sample.completion_tokens, sample.chunks,
                        line->gap_p50, line->gap_p95, line->gap_worst, csv_text(sample.error));
  }
  return text;
}

}  // namespace cairn::bench
