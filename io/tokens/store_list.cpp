#include "io/tokens/store_list.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <filesystem>
#include <glob.h>
#include <set>
#include <string_view>
#include <system_error>

namespace trivium {

namespace fs = std::filesystem;

namespace {

bool is_there(const std::string& path)
{
    std::error_code ignored;
    return fs::exists(path, ignored);
}

bool is_folder(const std::string& path)
{
    std::error_code ignored;
    return fs::is_directory(path, ignored);
}

std::vector<std::string> paths_in(const std::string& folder)
{
    std::vector<std::string> paths;
    std::error_code error;
    for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
         at.increment(error))
        if (!at->path().filename().string().starts_with("."))
            paths.push_back(at->path().string());
    if (error)
        throw_errno(folder, "list this folder", error.value());
    return paths;
}

std::vector<std::string> paths_that_match(const std::string& pattern)
{
    glob_t found{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
    const std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status != 0 && status != GLOB_NOMATCH)
        throw UserError({pattern, "cannot be searched",
                         "a folder of this pattern is missing or cannot be read",
                         "check the pattern and the permissions; it is relative to the working folder"});
    return paths;
}

/// `path`, or if it is an index or metadata, the file with the ids.
std::string file_with_ids(const std::string& path)
{
    if (path.ends_with(".idx"))
        return path.substr(0, path.size() - 4) + ".bin";
    for (const std::string_view end : {".index", ".metadata"})
        if (path.ends_with(str(".ds", end)))
            return path.substr(0, path.size() - end.size());
    return path;
}

} // namespace

bool names_several_files(const std::string& name)
{
    if (is_there(name + ".idx")) // of Megatron-LM
        return false;
    return is_there(name) ? is_folder(name) : name.find_first_of("*?[") != std::string::npos;
}

std::vector<std::string> files_of_store(const std::string& name)
{
    if (!names_several_files(name))
        return {name};
    std::set<std::string> files; // sorted
    for (const std::string& path : is_folder(name) ? paths_in(name) : paths_that_match(name)) {
        if (is_folder(path))
            throw UserError({path, str("is a folder, among the files of ", name),
                             "a token store of several files is the files of one folder, or those that match "
                             "a pattern",
                             "name the files with a pattern, such as DIR/*.bin or DIR/*/*.bin"});
        const std::string file = file_with_ids(path);
        if (file != path && !is_there(file))
            throw UserError({path, "has no file with its ids", str(file, " does not exist"),
                             "copy that file, too, or move this one away"});
        files.insert(file);
    }
    if (files.empty())
        throw UserError({name, is_folder(name) ? "contains no file" : "matches no file",
                         "a folder or a pattern as a token store is its files",
                         "check the path; it is relative to the working folder"});
    return {files.begin(), files.end()};
}

} // namespace trivium
