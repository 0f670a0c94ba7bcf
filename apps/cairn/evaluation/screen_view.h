/// The questions of `cairn eval` on a terminal: how far each is, and by keys which is asked next.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "base/error.h"
#include "evaluation/question.h"
#include "evaluation/run.h"

namespace cairn {

/// "1:05 left", from what was answered in so many seconds; empty before the first.
std::string time_left(size_t done, size_t all, double seconds);

/// Whether input and output are a terminal that such a view can be on.
bool has_screen();

/// Shows the run until all is answered and a key leaves, or `stopped` is set, which q and Ctrl-C do. `model` is the
/// model's name. Errors: those of RawMode::enter and of output.
Result<void> view_run(evaluation::QuestionRun& run, std::span<const evaluation::Question> questions,
                      const std::string& model, std::atomic<bool>& stopped);

}  // namespace cairn
