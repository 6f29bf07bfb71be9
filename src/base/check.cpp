#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace trivium {

std::string format(const Diagnostic& diagnostic)
{
    std::string text = diagnostic.place.empty() ? "" : diagnostic.place + ": ";
    text += diagnostic.problem;
    if (!diagnostic.reason.empty())
        text += "\n  reason: " + diagnostic.reason;
    if (!diagnostic.remedy.empty())
        text += "\n  remedy: " + diagnostic.remedy;
    return text;
}

InternalError::InternalError(const char* file, int line, const std::string& what)
    : Error(str("internal error at ",
                std::string_view(file).substr(std::string_view(file).find_last_of('/') + 1), ":", line, ": ",
                what, "\n  remedy: this is a bug in Trivium; please report it with the config"),
            1)
{
}

int leave_status(int status)
{
    const char* path = std::getenv("TRIVIUM_STATUS_FILE");
    if (std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "wx")) {
        std::fprintf(file, "%d\n", status);
        std::fclose(file);
    }
    return status;
}

} // namespace trivium
