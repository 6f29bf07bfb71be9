#include "base/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unistd.h>

namespace trivium {

namespace {

std::atomic<LogLevel> current_level{LogLevel::info};
std::mutex line_mutex;
std::string line_prefix;
bool progress_shown = false;

void write_line(LogLevel level, const char* mark, const std::string& line)
{
    if (level > current_level.load())
        return;
    const std::lock_guard lock(line_mutex);
    if (progress_shown)
        std::fputs("\r\033[K", stderr);
    progress_shown = false;
    std::fprintf(stderr, "%s%s%s\n", line_prefix.c_str(), mark, line.c_str());
}

} // namespace

void set_log_level(LogLevel level) { current_level = level; }

void set_log_prefix(const std::string& prefix)
{
    const std::lock_guard lock(line_mutex);
    line_prefix = prefix;
}

void log_info(const std::string& line) { write_line(LogLevel::info, "", line); }
void log_warning(const std::string& line) { write_line(LogLevel::warning, "warning: ", line); }
void log_debug(const std::string& line) { write_line(LogLevel::debug, "debug: ", line); }

bool log_on_terminal()
{
    static const bool terminal = isatty(STDERR_FILENO) != 0;
    return terminal;
}

void log_progress(const std::string& line)
{
    if (!log_on_terminal() || LogLevel::info > current_level.load())
        return;
    const std::lock_guard lock(line_mutex);
    std::fprintf(stderr, "\r\033[K%s%s", line.empty() ? "" : line_prefix.c_str(), line.c_str());
    std::fflush(stderr);
    progress_shown = !line.empty();
}

} // namespace trivium
