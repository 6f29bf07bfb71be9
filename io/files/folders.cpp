#include "io/files/folders.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace trivium {

namespace fs = std::filesystem;

namespace {

bool is_below(const fs::path& path, const fs::path& folder)
{
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

} // namespace

std::string file_in_folder(const std::string& folder, const std::string& name)
{
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found && !fs::is_symlink(fs::symlink_status(path, error)))
        return "";
    if (status.type() != fs::file_type::regular)
        throw UserError({path.string(), "is not a regular file", error ? error.message() : "",
                         "get the folder again from where it came from"});
    const fs::path home = fs::canonical(folder, error), target = fs::canonical(path, error);
    const bool is_cache = home.parent_path().filename() == "snapshots";
    if (!is_below(target, home) &&
        !(is_cache && is_below(target, home.parent_path().parent_path() / "blobs")))
        throw UserError({path.string(), "is a link out of its folder", "it points to " + target.string(),
                         "copy the folder with the files that it links to: cp -rL " + folder + " COPY"});
    return path.string();
}

void require_new_folder(const std::string& path)
{
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error)))
        return;
    if (!fs::is_directory(path, error))
        throw UserError({path, "exists and is not a folder", "", "name a folder that does not exist yet"});
    if (!fs::is_empty(path, error))
        throw UserError({path, "exists and is not empty", "nothing is overwritten",
                         "name a folder that does not exist yet, or remove this one"});
}

void make_whole_folder(const std::string& path, const std::function<void(const std::string&)>& write)
{
    require_new_folder(path);
    fs::path name = fs::path(path).lexically_normal();
    if (!name.has_filename()) // "model/"
        name = name.parent_path();
    const std::string temporary = str(name.string(), ".tmp-", ::getpid());
    std::error_code ignored;
    fs::remove_all(temporary, ignored); // left by a killed process with the same id
    try {
        make_folders(temporary);
        write(temporary);
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary))
            sync_path(entry.path().string());
        sync_path(temporary);
        if (std::rename(temporary.c_str(), name.c_str()) != 0)
            throw_errno(path, "make");
    } catch (const fs::filesystem_error& error) {
        fs::remove_all(temporary, ignored);
        throw IoError(
            {path, "cannot be written", error.code().message(), "check the path and its permissions"});
    } catch (...) {
        fs::remove_all(temporary, ignored);
        throw;
    }
    sync_path(folder_of(name.string()));
}

} // namespace trivium
