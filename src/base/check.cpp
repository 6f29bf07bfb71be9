#include "base/check.hpp"

#include <string_view>

namespace trivium {

std::string format(const Complaint& complaint)
{
    std::string text = complaint.place.empty() ? "" : complaint.place + ": ";
    text += complaint.problem;
    if (!complaint.reason.empty())
        text += "\n  reason: " + complaint.reason;
    if (!complaint.remedy.empty())
        text += "\n  remedy: " + complaint.remedy;
    return text;
}

InternalError::InternalError(const char* file, int line, const std::string& what)
    : Error(str("internal error at ", std::string_view(file).substr(std::string_view(file).find_last_of('/') + 1),
                ":", line, ": ", what, "\n  remedy: this is a bug in Trivium; please report it with the config"),
            1)
{
}

} // namespace trivium
