#include "base/log.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace trivium {

namespace {

std::atomic<LogLevel> current_level{LogLevel::info};
std::mutex line_mutex;
bool progress_shown = false;
std::FILE* info_file = nullptr; // null: stderr
bool info_lost = false;

void write_line(LogLevel level, const char* mark, const std::string& line)
{
    if (level > current_level.load())
        return;
    const std::lock_guard lock(line_mutex);
    if (progress_shown)
        std::fputs("\r\033[K", stderr);
    progress_shown = false;
    if (level != LogLevel::info || !info_file) {
        std::fprintf(stderr, "%s%s\n", mark, line.c_str());
        return;
    }
    if (info_lost)
        return;
    if (std::fprintf(info_file, "%s%s\n", mark, line.c_str()) >= 0 && std::fflush(info_file) == 0)
        return;
    info_lost = true;
    std::fprintf(stderr, "warning: stdout cannot be written (%s): the log ends here, the program continues\n",
                 std::strerror(errno));
}

} // namespace

void set_log_level(LogLevel level) { current_level = level; }

void log_to_stdout()
{
    const std::lock_guard lock(line_mutex);
    info_file = stdout;
    std::signal(SIGPIPE, SIG_IGN);
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
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    progress_shown = !line.empty();
}

} // namespace trivium
