#pragma once
// What the program says while it runs: one line at a time, to stderr. Results go to stdout, and where the log
// is the result, as of `train`, its lines do too.
#include <string>

namespace trivium {

enum class LogLevel { quiet, warning, info, debug };

/// Lines above `level` are dropped. Ranks other than 0 set `warning`.
void set_log_level(LogLevel level);
/// Put in front of each line, e.g. "[rank 3] "; empty by default.
void set_log_prefix(const std::string& prefix);

/// From now on log_info() writes to stdout, each line at once. Where nobody reads it any more (a closed pipe,
/// a full disk), a warning says so once, and the program goes on: SIGPIPE is ignored from now on.
void log_to_stdout();

void log_info(const std::string& line);
void log_warning(const std::string& line);
void log_debug(const std::string& line);

/// A line that replaces itself on a terminal and is dropped elsewhere. Empty clears it.
void log_progress(const std::string& line);

/// True where stderr is a terminal.
bool log_on_terminal();

} // namespace trivium
