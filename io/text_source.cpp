#include "io/text_source.hpp"

#include "base/check.hpp"
#include "io/files.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace fs = std::filesystem;

namespace {

bool is_lines(const std::string& path)
{
    const std::string extension = fs::path(path).extension().string();
    return extension == ".jsonl" || extension == ".ndjson";
}

bool wanted_in_folder(const fs::path& path)
{
    const std::string extension = path.extension().string();
    const bool hidden = path.filename().string().starts_with(".");
    return !hidden && (extension.empty() || extension == ".txt" || extension == ".text" || extension == ".md" || is_lines(path.string()));
}

void list_folder(const std::string& folder, std::vector<std::string>& files)
{
    std::vector<std::string> found;
    std::error_code error;
    fs::recursive_directory_iterator at(folder, error); // links to folders are not followed: they may lead back here
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error))
        if (at->is_regular_file(error) && wanted_in_folder(at->path()))
            found.push_back(at->path().string());
    if (error)
        throw IoError({folder, "cannot list this folder", error.message(), "check its permissions"});
    if (found.empty())
        throw UserError({folder, "has no text", "of a folder, .txt .text .md .jsonl .ndjson files and names without extension are read",
                         "name the files themselves, or another folder"});
    // The order of a folder's entries is the file system's; the order of documents must not be.
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
}

void refuse_compressed(const std::string& path)
{
    const std::string extension = fs::path(path).extension().string();
    for (const char* compressed : {".gz", ".zst", ".xz", ".bz2", ".zip"})
        if (extension == compressed)
            throw UserError({path, "is compressed", "text is read as it stands", "decompress it first (gunzip, unzstd, …)"});
}

[[noreturn]] void throw_not_utf8(const std::string& path, Bytes offset)
{
    throw UserError({path, str("is not UTF-8 at byte offset ", offset), "text must be UTF-8",
                     "convert it (iconv -f LATIN1 -t UTF-8 FILE), or leave the file out"});
}

bool is_continuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

} // namespace

i64 first_invalid_utf8(std::string_view text)
{
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    const std::size_t size = text.size();
    for (std::size_t at = 0; at < size;) {
        const unsigned char lead = bytes[at];
        if (lead < 0x80) {
            ++at;
            continue;
        }
        const std::size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
        if (length == 0 || at + length > size)
            return static_cast<i64>(at);
        // The second byte's range excludes overlong forms, surrogates and what lies past U+10FFFF.
        const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (bytes[at + 1] < low || bytes[at + 1] > high)
            return static_cast<i64>(at);
        for (std::size_t i = 2; i < length; ++i)
            if (!is_continuation(bytes[at + i]))
                return static_cast<i64>(at);
        at += length;
    }
    return -1;
}

TextSource::TextSource(const std::vector<std::string>& inputs, std::string key) : key_(std::move(key))
{
    for (const std::string& input : inputs) {
        if (fs::is_directory(input))
            list_folder(input, files_);
        else {
            refuse_compressed(input);
            files_.push_back(input);
        }
    }
    if (files_.empty())
        throw UserError({"input", "no text file is named", "", "name files, folders or JSONL files"});
    for (const std::string& file : files_)
        bytes_total_ += file_size(file, "text file");
}

bool TextSource::next(Document& document)
{
    while (file_ < files_.size()) {
        if (is_lines(files_[file_])) {
            if (!next_line(document))
                continue;
        } else
            next_text(document);
        if (document.text.empty())
            continue;
        ++documents_;
        return true;
    }
    if (documents_ == 0)
        throw UserError({files_.front(), str("the corpus is empty: ", files_.size(), files_.size() == 1 ? " file" : " files",
                                             " without any text"),
                         "", "name files that have text in them"});
    return false;
}

void TextSource::next_text(Document& document)
{
    const std::string& path = files_[file_++];
    document.text = read_file(path, "text file");
    document.place = path;
    bytes_done_ += static_cast<Bytes>(document.text.size());
    const i64 invalid = first_invalid_utf8(document.text);
    if (invalid >= 0)
        throw_not_utf8(path, invalid);
    if (document.text.starts_with("\xef\xbb\xbf")) // a byte order mark is no text
        document.text.erase(0, 3);
}

/// One line's document; false where the file has no more.
bool TextSource::next_line(Document& document)
{
    const std::string& path = files_[file_];
    if (!lines_.is_open()) {
        lines_.clear();
        lines_.open(path, std::ios::binary);
        line_number_ = 0;
        line_begin_ = 0;
    }
    if (!std::getline(lines_, line_)) {
        if (lines_.bad() || !lines_.eof())
            throw IoError({path, "cannot be read", "", "check the file and its permissions"});
        lines_.close();
        ++file_;
        return false;
    }
    ++line_number_;
    const Bytes begin = line_begin_, bytes = static_cast<Bytes>(line_.size()) + (lines_.eof() ? 0 : 1);
    line_begin_ += bytes;
    bytes_done_ += bytes;
    document.text.clear();
    document.place = str(path, ":", line_number_);
    const i64 invalid = first_invalid_utf8(line_);
    if (invalid >= 0)
        throw_not_utf8(path, begin + invalid);
    if (line_.find_first_not_of(" \t\r") == std::string::npos)
        return true;

    const auto bad_line = [&](const std::string& problem, const std::string& reason, const std::string& remedy) {
        throw UserError({document.place, problem, reason, remedy});
    };
    nlohmann::json object;
    try {
        object = nlohmann::json::parse(line_);
    } catch (const nlohmann::json::parse_error& error) {
        bad_line("is not valid JSON", error.what(), "each line is one JSON object; repair or remove this line");
    }
    if (!object.is_object())
        bad_line(str("is not a JSON object but ", object.type_name()), "", str("each line is an object like {\"", key_, "\": \"…\"}"));
    const auto field = object.find(key_);
    if (field == object.end()) {
        std::string names;
        for (const auto& [name, value] : object.items())
            names += str(names.empty() ? "its fields are \"" : ", \"", name, "\"");
        bad_line(str("has no field \"", key_, "\""), names.empty() ? "the object is empty" : names,
                 "name the field that holds the text with --key");
    }
    if (!field->is_string())
        bad_line(str("its field \"", key_, "\" is not a string but ", field->type_name()), "", "name the field that holds the text with --key");
    document.text = field->get<std::string>();
    return true;
}

} // namespace trivium
