#pragma once
// The log: one line at a time, from any thread, to stderr. Results go to stdout; so does the log of `train`.
#include <string>

namespace trivium {

enum class LogLevel { quiet, warning, info, debug };

/// Lines above `level` are dropped. Ranks other than 0 set `warning`.
void set_log_level(LogLevel level);

/// Makes log_info() write to stdout, flushed after each line, and ignores SIGPIPE. If stdout fails (a closed
/// pipe, a full disk), one warning reports it, and the program continues.
void log_to_stdout();

void log_info(const std::string& line);
void log_warning(const std::string& line);
void log_debug(const std::string& line);

/// Shows a progress line, which replaces the previous one, on a terminal; otherwise drops it. Empty clears
/// it.
void log_progress(const std::string& line);

/// True if stderr is a terminal.
bool log_on_terminal();

} // namespace trivium
