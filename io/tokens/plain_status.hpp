#pragma once
// What SentencePiece says of a failure, without the places of its sources.
#include <string>

namespace trivium {

/// "Internal: ./src/file.cc(232) [condition] Vocabulary size too high" gives "Vocabulary size too high"; ""
/// where there is no more.
inline std::string plain_status(const std::string& status)
{
    const std::size_t bracket = status.rfind("] "), colon = status.find(": ");
    if (bracket != std::string::npos)
        return status.substr(bracket + 2);
    return colon == std::string::npos ? status : status.substr(colon + 2);
}

} // namespace trivium
