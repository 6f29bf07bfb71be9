#pragma once
// Errors about the file, folder or checkpoint that a config key names.
#include "base/check.hpp"

#include <string>

namespace trivium {

/// Returns the result of `work`. UserError and IoError from `work` begin with `key`, so that a message about
/// a file tells which setting names it; if `key` is empty, they are unchanged.
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
