#include "io/tokens/text_files.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>

namespace trivium {

namespace fs = std::filesystem;

namespace {

bool matches(const std::vector<std::string>& patterns, const fs::path& path, const std::string& folder)
{
    return std::ranges::any_of(patterns, [&](const std::string& pattern) {
        const std::string text = pattern.find('/') == std::string::npos
                                     ? path.filename().string()
                                     : path.lexically_relative(folder).string();
        return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    });
}

/// Whether the command itself reads or writes this file, which may be in the input folder.
bool is_own(const TextSelection& selection, const fs::path& path)
{
    std::error_code ignored;
    return std::ranges::any_of(selection.own, [&](const std::string& own) {
        return fs::path(own).filename() == path.filename() && fs::equivalent(own, path, ignored);
    });
}

class FolderWalk {
public:
    FolderWalk(const TextSelection& selection, CorpusReport& report) : selection_(selection), report_(report)
    {
    }

    void walk(const std::string& folder, std::vector<TextFile>& files)
    {
        std::vector<TextFile> found;
        std::error_code error;
        // Links to folders are not followed: they may form a cycle.
        fs::recursive_directory_iterator at(folder, error);
        for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
            const fs::path& path = at->path();
            if (path.filename().string().starts_with(".")) {
                report_.skip({"hidden file or folder", "hidden files and folders",
                              "to read it, name it as an input", path.string()});
                at.disable_recursion_pending();
            } else
                visit(*at, folder, found);
        }
        if (error)
            throw IoError({folder, "cannot list this folder", error.message(), "check its permissions"});
        // The file system's order of entries must not determine the order of documents.
        std::ranges::sort(found, [](const TextFile& a, const TextFile& b) { return a.path < b.path; });
        files.insert(files.end(), found.begin(), found.end());
    }

private:
    void visit(const fs::directory_entry& entry, const std::string& folder, std::vector<TextFile>& found)
    {
        std::error_code error;
        const std::string path = entry.path().string();
        const fs::file_type type = entry.status(error).type();
        if (type == fs::file_type::directory) {
            if (entry.is_symlink(error))
                report_.skip({"link to a folder", "links to folders",
                              "to read it, name the folder as an input", path});
            return;
        }
        if (type != fs::file_type::regular) {
            const bool broken = type == fs::file_type::not_found || type == fs::file_type::none;
            const char *const one = broken ? "broken link" : "pipe, socket or device",
                              *const several = broken ? "broken links" : "pipes, sockets or devices";
            report_.skip({one, several, "", path});
        } else if (is_own(selection_, entry.path()))
            report_.skip(
                {"file that this command itself uses", "files that this command itself uses", "", path});
        else if ((!selection_.include.empty() && !matches(selection_.include, entry.path(), folder)) ||
                 matches(selection_.exclude, entry.path(), folder))
            report_.skip({"file excluded by --include or --exclude",
                          "files excluded by --include or --exclude", "", path});
        else
            found.push_back({path, false, static_cast<Bytes>(entry.file_size(error))});
    }

    const TextSelection& selection_;
    CorpusReport& report_;
};

bool begins_with_any(std::string_view head, std::initializer_list<std::string_view> all)
{
    return std::ranges::any_of(all, [&](std::string_view each) { return head.starts_with(each); });
}

} // namespace

std::vector<TextFile> list_text_files(const TextSelection& selection, CorpusReport& report)
{
    std::vector<TextFile> files;
    bool has_folder = false;
    FolderWalk walk(selection, report);
    for (const std::string& input : selection.inputs) {
        std::error_code ignored;
        if (fs::is_directory(input, ignored)) {
            has_folder = true;
            walk.walk(input, files);
        } else
            files.push_back({input, true, file_size(input, "text file")});
    }
    if (selection.inputs.empty())
        throw UserError({"input", "no text file is named", "", "name files or folders"});
    if (!has_folder && (!selection.include.empty() || !selection.exclude.empty()))
        throw UserError({selection.include.empty() ? "--exclude" : "--include", "applies to nothing",
                         "no input is a folder, and files that are named are read",
                         "leave it out, or name a folder"});
    return files;
}

std::optional<NotText> not_text(const std::string& path, std::string_view head)
{
    const std::string suffix = fs::path(path).extension().string();
    const auto has_suffix = [&](std::initializer_list<std::string_view> all) {
        return std::ranges::find(all, suffix) != all.end();
    };
    using namespace std::string_view_literals;
    if (has_suffix({".xz", ".bz2", ".zip", ".lz4", ".7z"}) ||
        begins_with_any(head, {"\xfd"
                               "7zXZ"sv,
                               "BZh91AY"sv, "PK\x03\x04"sv, "\x04\x22\x4d\x18"sv, "7z\xbc\xaf"sv}))
        return NotText{
            {"compressed file", "compressed files", "decompress first, or compress with gzip or zstd"},
            "is compressed",
            "of compressed files only .gz and .zst are read",
            "decompress it first (unxz, bunzip2, unzip, …)"};
    if (begins_with_any(head, {"\xff\xfe"sv, "\xfe\xff"sv}))
        return NotText{
            {"file in UTF-16", "files in UTF-16", "convert to UTF-8 (iconv -f UTF-16 -t UTF-8 FILE)"},
            "is not UTF-8 at byte offset 0",
            "it begins with a UTF-16 byte-order mark",
            "convert it (iconv -f UTF-16 -t UTF-8 FILE)"};
    if (const std::size_t nul = head.find('\0'); nul != std::string_view::npos)
        return NotText{{"binary file", "binary files"},
                       "is a binary file, not text",
                       str("it has a zero byte at offset ", nul),
                       "name files of UTF-8 text"};
    return {};
}

} // namespace trivium
