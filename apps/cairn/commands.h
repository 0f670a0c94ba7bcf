/// The program's subcommands: one file each, with flags and printing only. Each add_X declares its flags on `app` (the
/// program), and a callback that runs the command and sets `exit_code`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"

namespace cairn {

/// Exit codes: 0 success, 1 the command failed, 2 the command line was wrong.
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

void add_serve(CLI::App& app, int& exit_code);
/// The options of `cairn serve`, for a command that looks at them.
void add_serve_options(CLI::App& command);
void add_config(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_ps(CLI::App& app, int& exit_code);
void add_stop(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_pull(CLI::App& app, int& exit_code);
void add_rm(CLI::App& app, int& exit_code);
void add_frames(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_gguf(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_imatrix(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_synth(CLI::App& app, int& exit_code);
void add_logits(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_render(CLI::App& app, int& exit_code);
void add_grammar(CLI::App& app, int& exit_code);
void add_key(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
/// Adds a subcommand of `bench`.
void add_bench_model(CLI::App& bench, int& exit_code);
void add_bench_context(CLI::App& bench, int& exit_code);
void add_bench_recall(CLI::App& bench, int& exit_code);
/// Adds subcommands of `eval`.
void add_eval_compare(CLI::App& eval, int& exit_code);
void add_eval_score(CLI::App& eval, int& exit_code);

/// A conversation in the terminal with the model of a file, as `cairn chat` has it.
Result<void> talk_to_file(const std::string& file, int& exit_code);

/// Prints "cairn: <text>" on standard error, in one line, and returns the exit code.
int report(const Error& error, int exit_code = kExitFailed);

}  // namespace cairn
