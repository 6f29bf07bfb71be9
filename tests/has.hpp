#pragma once
#include <exception>
#include <string>

/// Whether `text` contains `part`.
inline bool has(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}

/// The message of the `Type` that `call` throws; "" if it throws nothing, "other: …" for another exception.
template <class Type, class Call>
std::string message_of(Call&& call)
{
    try {
        call();
    } catch (const Type& error) {
        return error.what();
    } catch (const std::exception& error) {
        return std::string("other: ") + error.what();
    }
    return "";
}
