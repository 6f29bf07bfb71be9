#pragma once
#include <string>

/// Whether `part` stands somewhere in `text`.
inline bool has(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}
