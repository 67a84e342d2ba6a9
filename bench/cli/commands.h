// The subcommands of `isobar`. Each add_… registers one on the app; its callback does the work when the
// command is given. A ConfigError ends the program with exit code 2, any other exception with 1.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace isobar::cli {

struct SubmittedTraining;

void add_plan_command(CLI::App& app);
/// `submit`: runs --launcher slurm and pbs (bench/cli/train/submit_train.h).
using Submit = std::function<int(const SubmittedTraining&)>;
void add_train_command(CLI::App& app, Submit submit);
void add_record_command(CLI::App& app);
void add_forecast_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_jacobian_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_fit_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_search_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_budget_command(CLI::App& app);
void add_emit_command(CLI::App& app);
void add_score_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_watch_command(CLI::App& app);
void add_open_command(CLI::App& app);
void add_import_command(CLI::App& app);
void add_data_commands(CLI::App& app);
void add_config_commands(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_machine_command(CLI::App& app);
void add_preflight_command(CLI::App& app);
/// Both describe all commands: added after them.
void add_completions_command(CLI::App& app);
void add_man_command(CLI::App& app);

/// Thrown by a callback to end with this exit code, after it has printed the reason.
struct ExitCode {
  int code;
};

}  // namespace isobar::cli
