#pragma once
// SentencePiece's error messages without its source locations.
#include <string>

namespace trivium {

/// "Internal: ./src/file.cc(232) [condition] Vocabulary size too high" becomes "Vocabulary size too high"; ""
/// if nothing is left.
inline std::string plain_status(const std::string& status)
{
    const std::size_t bracket = status.rfind("] "), colon = status.find(": ");
    if (bracket != std::string::npos)
        return status.substr(bracket + 2);
    return colon == std::string::npos ? status : status.substr(colon + 2);
}

} // namespace trivium
