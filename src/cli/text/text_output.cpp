#include "cli/text/text_output.hpp"

#include <fmt/format.h>

namespace trivium {

JsonLines::JsonLines(const std::string& path)
{
    if (!path.empty())
        file_.emplace(path);
}

void JsonLines::write(const nlohmann::ordered_json& line)
{
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"; // may end in a character
    if (file_)
        file_->write(text);
    else
        write_all(1, "stdout", text);
}

void JsonLines::close()
{
    if (file_)
        file_->close();
}

} // namespace trivium
