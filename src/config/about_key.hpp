#pragma once
// Errors about what a key of the config names: a file, a folder, a checkpoint.
#include "base/check.hpp"

#include <string>

namespace trivium {

/// Runs `work`. Its errors begin with `key`, so that a message about a file tells which setting names it.
/// Empty: none does.
template <class Work>
auto about_key(const std::string& key, const Work& work)
{
    try {
        return work();
    } catch (const UserError& error) {
        if (key.empty())
            throw;
        throw UserError({key, error.what(), "", ""});
    } catch (const IoError& error) {
        if (key.empty())
            throw;
        throw IoError({key, error.what(), "", ""});
    }
}

} // namespace trivium
