#include "cli/text_arguments.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace trivium {

void add_selection(Command& command, TextSelection& text)
{
    command
        .option("input", text.inputs,
                "text files, files of JSON records (.jsonl, .ndjson, .json), both also as .gz and .zst, "
                ".parquet, "
                "folders",
                {.required = true, .type = "INPUT…"})
        .option("--key", text.key,
                "field of a JSON record, or column of a Parquet file, that contains the text "
                "(default: text)")
        .option("--include", text.include,
                "in folders, read only files that match a pattern: '*.md,*.txt', 'notes/*'",
                {.list = true, .type = "PATTERN,…"})
        .option("--exclude", text.exclude, "in folders, leave out files that match a pattern",
                {.list = true, .type = "PATTERN,…"});
    command.flag("--skip-bad", text.skip_bad,
                 "skip and count records without valid JSON, UTF-8 or text, named files that are not text, "
                 "and damaged "
                 "Parquet");
    command.footer(
        "A file of UTF-8 text is one document. In a file of JSON records (one object per line, or a list of "
        "objects), each record is one, and so is each row of a Parquet file. `data tokenize` reads records "
        "of "
        "chats, too\n"
        "(docs/fine-tuning.md).\n"
        "Folders are read with their sub-folders, in order of path. Left out, and counted in the summary: "
        "hidden files and\n"
        "folders (.NAME), links to folders, and files that are compressed, binary, not UTF-8 or empty. If "
        "you name a file\n"
        "that is not text, that is an error. A pattern with a '/' matches the path below the folder.");
}

void print_report(const CorpusReport& report)
{
    std::cout << "read: " << describe_read(report) << "\n";
    for (const std::string& line : describe_skipped(report))
        std::cout << "left out: " << line << "\n";
    for (const std::string& hint : report.hints)
        log_warning(hint);
}

void require_own_place(const std::string& output, const std::vector<std::string>& others)
{
    require_parent(output);
    std::error_code ignored;
    for (const std::string& other : others)
        if (output == other || std::filesystem::equivalent(output, other, ignored))
            throw UserError({output, "is both input and output", "", "choose another --output"});
}

void require_free(const std::string& output, bool force)
{
    if (std::error_code ignored; !force && std::filesystem::is_regular_file(output, ignored) &&
                                 std::filesystem::file_size(output, ignored) > 0)
        throw UserError({output, "exists already", "a run may need this store", force_remedy});
}

void TextProgress::show(Bytes done, Bytes total, i64 tokens)
{
    const Seconds time = now();
    if (time - last_ < 0.2)
        return;
    last_ = time;
    const auto megabytes = [](Bytes bytes) { return static_cast<double>(bytes) / 1e6; };
    log_progress(str(fixed(megabytes(done), 1), " of ", fixed(megabytes(total), 1), " MB, ",
                     fixed(megabytes(done) / seconds(), 1), " MB/s",
                     tokens < 0 ? "" : str(", ", format_si(static_cast<double>(tokens)), " tokens")));
}

Seconds TextProgress::seconds() const { return std::max(1e-9, now() - begin_); }

} // namespace trivium
