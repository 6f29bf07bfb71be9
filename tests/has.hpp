#pragma once
#include <string>

/// Whether `text` contains `part`.
inline bool has(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}
