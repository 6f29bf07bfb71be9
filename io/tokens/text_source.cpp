#include "io/tokens/text_source.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/files/files.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_lines(const std::string& suffix) { return suffix == ".jsonl" || suffix == ".ndjson"; }
bool may_have_records(const std::string& path)
{
    return is_lines(suffix_of(path)) || suffix_of(path) == ".json";
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

NotText not_utf8(Bytes offset)
{
    return {{"file that is not UTF-8", "files that are not UTF-8",
             "convert (iconv -f LATIN1 -t UTF-8 FILE), if it is text"},
            str("is not UTF-8 at byte offset ", offset),
            "text must be UTF-8",
            "convert it (iconv -f LATIN1 -t UTF-8 FILE), or leave the file out"};
}

[[noreturn]] void throw_not_text(const std::string& path, const NotText& why)
{
    throw UserError({path, why.problem, why.reason, why.remedy});
}

/// The first bytes of a regular file; "" for others (reading a pipe consumes its bytes).
std::string head_of(const std::string& path)
{
    std::string head(head_bytes, '\0');
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored))
        return "";
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return head;
}

} // namespace

TextSource::TextSource(TextSelection selection)
    : selection_(std::move(selection)), key_(selection_.key.empty() ? "text" : selection_.key)
{
    files_ = list_text_files(selection_, listed_);
    report_ = listed_;
    if (files_.empty())
        check_end();
    if (!selection_.key.empty() &&
        std::ranges::none_of(files_, [](const TextFile& each) { return may_have_records(each.path); }))
        throw UserError(
            {"--key " + selection_.key, "applies to nothing",
             str("no .jsonl, .ndjson or .json is among the input: ", files_.front().path,
                 files_.size() == 1
                     ? ""
                     : " and " + counted_in_groups(static_cast<i64>(files_.size()) - 1, "more file")),
             "leave it out, or name files of JSON records"});
    for (const TextFile& each : files_)
        bytes_total_ += each.bytes;
}

void TextSource::rewind()
{
    std::error_code ignored;
    for (const TextFile& each : files_)
        if (!fs::is_regular_file(each.path, ignored))
            throw UserError({each.path, "cannot be read twice",
                             "it is not a regular file, and documents to hold out are chosen in a first pass",
                             "write it to a file first"});
    report_ = listed_;
    file_ = 0;
    form_ = Form::none;
    documents_ = bytes_done_ = record_files_ = 0;
}

void TextSource::check_end() const
{
    if (documents_ == 0) {
        std::string found;
        for (const std::string& line : describe_skipped(report_))
            found += (found.empty() ? "" : ". ") + line;
        throw UserError({selection_.inputs.size() == 1 ? selection_.inputs.front() : "the inputs",
                         "no text was found", found.empty() ? "" : "left out: " + found,
                         "name files of UTF-8 text, or a folder with such files"});
    }
    if (!selection_.key.empty() && record_files_ == 0)
        throw UserError({"--key " + selection_.key, "applies to nothing",
                         "no file has JSON records; read: " + describe_read(report_),
                         "leave it out, or name files of JSON records"});
}

bool TextSource::next(Document& document)
{
    while (file_ < files_.size()) {
        if (form_ == Form::none) {
            form_ = open(file());
            if (form_ == Form::none) { // skipped
                ++file_;
                continue;
            }
            ++report_.read[suffix_of(file().path)].files;
            record_files_ += form_ != Form::text;
        }
        CorpusReport::Read& read = report_.read[suffix_of(file().path)];
        bool more = false;
        try {
            more = form_ == Form::text    ? take_text(document)
                   : form_ == Form::lines ? take_line(document)
                                          : take_record(document);
        } catch (const UserError&) {
            if (!selection_.skip_bad)
                throw;
            skip_bad(document.place);
            document.text.clear();
            more = true;
        }
        if (!more) {
            form_ = Form::none;
            records_.reset();
            lines_.close();
            content_.clear();
            ++file_;
            continue;
        }
        if (document.text.empty())
            continue;
        ++documents_;
        ++read.documents;
        return true;
    }
    check_end();
    return false;
}

void TextSource::skip_bad(const std::string& place) { report_.skip({"bad record", "bad records"}, place); }

TextSource::Form TextSource::skip(const TextFile& file, const NotText& why)
{
    if (file.named && !selection_.skip_bad)
        throw_not_text(file.path, why);
    return leave_out(file, why.kind);
}

TextSource::Form TextSource::leave_out(const TextFile& file, const CorpusReport::Skipped& kind)
{
    report_.skip(kind, file.path);
    bytes_done_ += file.bytes;
    return Form::none;
}

TextSource::Form TextSource::open(const TextFile& file)
{
    if (const auto why = not_text(file.path, head_of(file.path)))
        return skip(file, *why);
    if (may_have_records(file.path) && begins_as_lines(file.path)) {
        lines_.clear();
        lines_.open(file.path, std::ios::binary);
        line_number_ = 0;
        line_begin_ = 0;
        return Form::lines;
    }
    content_ = read_file(file.path, "text file");
    if (const auto why =
            not_text(file.path, std::string_view(content_).substr(0, head_bytes))) // again, for pipes
        return skip(file, *why);
    if (const i64 invalid = first_invalid_utf8(content_); invalid >= 0)
        return skip(file, not_utf8(invalid));
    if (content_.starts_with(byte_order_mark))
        content_.erase(0, byte_order_mark.size());
    if (is_blank(content_))
        return leave_out(file, {"empty file", "empty files"});
    bytes_done_ += may_have_records(file.path) ? 0 : file.bytes;
    return may_have_records(file.path) ? form_of_json(file) : Form::text;
}

/// Whether to read a file line by line: .jsonl and .ndjson unless they are a list; .json if its first two
/// lines are objects and the first one has text.
bool TextSource::begins_as_lines(const std::string& path)
{
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) // reading a pipe would consume its bytes
        return is_lines(suffix_of(path));
    std::ifstream file(path, std::ios::binary);
    std::string first;
    while (is_blank(first) && std::getline(file, first))
        ;
    if (is_blank(first))
        return false;
    std::string_view line = first;
    if (line.starts_with(byte_order_mark))
        line.remove_prefix(byte_order_mark.size());
    const char begin = line[line.find_first_not_of(" \t\r")];
    if (is_lines(suffix_of(path)))
        return begin != '[';
    std::string second;
    while (is_blank(second) && std::getline(file, second))
        ;
    return begin == '{' && !is_blank(second) && second[second.find_first_not_of(" \t\r")] == '{' &&
           nlohmann::json::accept(line) && has_text(line, key_, path);
}

TextSource::Form TextSource::form_of_json(const TextFile& file)
{
    JsonRecords records(content_, file.path);
    if (!records.are_records() && is_lines(suffix_of(file.path)))
        text_of_record(content_, key_, file.path + ":1"); // throws: it is not an object
    if (records.are_records()) {
        try {
            const auto first = records.next();
            const std::string place = str(file.path, ":", first->line);
            const bool good = has_text(first->text, key_, place);
            if (!good && (records.is_list() || records.next()))
                text_of_record(first->text, key_, place); // throws with the fields that it has
            if (good) {
                records_.emplace(content_, file.path);
                return Form::records;
            }
        } catch (const UserError& error) {
            if ((file.named || is_lines(suffix_of(file.path))) && !selection_.skip_bad)
                throw;
            std::string problem = error.what(); // "PLACE: PROBLEM\n  reason: …"
            if (problem.find("is not valid JSON") != std::string::npos)
                return leave_out(file, {"JSON file that is not valid", "JSON files that are not valid",
                                        "name it to see why"});
            const std::string without = str(" of JSON records without text in the field \"", key_, "\"");
            return leave_out(file, {"file" + without, "files" + without,
                                    "name the field with --key, or leave them out with --exclude"});
        }
    }
    bytes_done_ += file.bytes;
    return Form::text;
}

bool TextSource::take_text(Document& document)
{
    if (content_.empty())
        return false;
    document.text = std::move(content_);
    content_.clear();
    document.place = file().path;
    return true;
}

bool TextSource::take_record(Document& document)
{
    const auto next = [&]() -> std::optional<JsonRecords::Record> {
        try {
            return records_->next();
        } catch (const UserError&) { // behind this, no record is found
            if (!selection_.skip_bad)
                throw;
            skip_bad(file().path);
            return {};
        }
    };
    // Not `record = …` in a `try`: if the call throws, GCC 12 leaves the variable without its first value.
    const auto record = next();
    if (!record) {
        bytes_done_ += file().bytes;
        return false;
    }
    document.place = str(file().path, ":", record->line);
    document.text = text_of_record(record->text, key_, document.place);
    return true;
}

/// Reads one line; false at the end of the file. document.text stays empty for a blank line.
bool TextSource::take_line(Document& document)
{
    const std::string& path = file().path;
    if (!std::getline(lines_, line_)) {
        if (lines_.bad() || !lines_.eof())
            throw IoError({path, "cannot be read", "", "check the file and its permissions"});
        return false;
    }
    ++line_number_;
    const Bytes begin = line_begin_, bytes = static_cast<Bytes>(line_.size()) + (lines_.eof() ? 0 : 1);
    line_begin_ += bytes;
    bytes_done_ += bytes;
    document.text.clear();
    document.place = str(path, ":", line_number_);
    if (const i64 invalid = first_invalid_utf8(line_); invalid >= 0)
        throw_not_text(path, not_utf8(begin + invalid));
    if (line_number_ == 1 && line_.starts_with(byte_order_mark))
        line_.erase(0, byte_order_mark.size());
    if (!is_blank(line_))
        document.text = text_of_record(line_, key_, document.place);
    return true;
}

} // namespace trivium
