#include "io/tokens/stated_eos.hpp"

#include "base/check.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

std::string with_eos(const std::string& file, const std::string& eos)
{
    std::string text = without_eos(file);
    return text.insert(text.find('{') + 1,
                       str('"', eos_statement, "\": ", nlohmann::json{{"eos_token", eos}}.dump(), ","));
}

std::string without_eos(const std::string& file)
{
    const std::size_t begin = file.find('{') + 1;
    const std::string head = str('"', eos_statement, "\": {\"eos_token\":");
    if (begin == 0 || file.compare(begin, head.size(), head) != 0)
        return file;
    std::size_t end = begin + head.size(); // of the token, a string
    for (bool open = false; end < file.size() && (open || file[end] != '}'); ++end) {
        if (file[end] == '\\')
            ++end;
        else if (file[end] == '"')
            open = !open;
    }
    return file.size() < end + 2 ? file : file.substr(0, begin) + file.substr(end + 2);
}

} // namespace trivium
