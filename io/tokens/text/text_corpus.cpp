#include "io/tokens/text/text_corpus.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>
#include <filesystem>

namespace trivium {

namespace fs = std::filesystem;

TextCorpus::TextCorpus(TextSelection selection)
    : selection_(std::move(selection)), rule_{.skip_bad = selection_.skip_bad,
                                              .chats = selection_.chats && selection_.key.empty()}
{
    if (!selection_.key.empty())
        rule_.key = selection_.key;
    files_ = list_text_files(selection_, listed_);
    if (files_.empty())
        check_end({});
    const auto may_have_records = [](const TextFile& each) {
        const std::string suffix = text_suffix(each.path);
        return suffix == ".jsonl" || suffix == ".ndjson" || suffix == ".json" || suffix == ".parquet";
    };
    if (!selection_.key.empty() && std::ranges::none_of(files_, may_have_records))
        throw UserError(
            {"--key " + selection_.key, "applies to nothing",
             str("no .jsonl, .ndjson, .json or .parquet is among the input: ", files_.front().path,
                 files_.size() == 1
                     ? ""
                     : " and " + counted_in_groups(static_cast<i64>(files_.size()) - 1, "more file")),
             "leave it out, or name files of JSON records or Parquet"});
    for (const TextFile& each : files_)
        bytes_total_ += each.bytes;
}

void TextCorpus::require_files(const std::string& reason) const
{
    std::error_code ignored;
    for (const TextFile& each : files_)
        if (!fs::is_regular_file(each.path, ignored))
            throw UserError({each.path, "cannot be read twice", "it is not a regular file, and " + reason,
                             "write it to a file first"});
}

TextCorpus::Found& TextCorpus::Found::operator+=(const Found& next)
{
    for (const auto& [suffix, read] : next.report.read) {
        report.read[suffix].files += read.files;
        report.read[suffix].documents += read.documents;
    }
    for (const auto& [path, forms] : next.report.forms)
        for (const auto& [form, count] : forms)
            report.forms[path][form] += count;
    for (const CorpusReport::Skipped& kind : next.report.skipped)
        report.skip(kind);
    documents += next.documents;
    record_files += next.record_files;
    answers += next.answers;
    trained_answers += next.trained_answers;
    report.hints.insert(next.report.hints.begin(), next.report.hints.end());
    bytes += next.bytes;
    return *this;
}

void TextCorpus::add(Found& found, const TextBlock& block, const BlockOutcome& outcome, i64 documents)
{
    found.documents += documents;
    found.bytes += block.input_bytes;
    found.record_files += outcome.read && outcome.records;
    if (!outcome.hint.empty())
        found.report.hints.insert(outcome.hint);
    for (const auto& [kind, line] : outcome.skipped)
        if (CorpusReport::Skipped& all = found.report.skip(kind); all.example.empty())
            all.example = place_of(block, line); // which may read the file
    for (const auto& [form, count] : outcome.forms)
        found.report.forms[block.file->path][form] += count;
    if (!outcome.read && documents == 0)
        return;
    CorpusReport::Read& read = found.report.read[text_suffix(block.file->path)];
    read.files += outcome.read && block.before_part == 0;
    read.documents += documents;
}

CorpusReport TextCorpus::report(const Found& found) const
{
    CorpusReport all = found.report;
    all.skipped = listed_.skipped;
    for (const CorpusReport::Skipped& kind : found.report.skipped)
        all.skip(kind);
    return all;
}

void TextCorpus::check_end(const Found& found) const
{
    const CorpusReport all = report(found);
    if (found.documents == 0) {
        std::string left_out;
        for (const std::string& line : describe_skipped(all))
            left_out += (left_out.empty() ? "" : ". ") + line;
        throw UserError({selection_.inputs.size() == 1 ? selection_.inputs.front() : "the inputs",
                         "no text was found", left_out.empty() ? "" : "left out: " + left_out,
                         "name files of UTF-8 text, or a folder with such files"});
    }
    if (!selection_.key.empty() && found.record_files == 0)
        throw UserError({"--key " + selection_.key, "applies to nothing",
                         "no file has records; read: " + describe_read(all),
                         "leave it out, or name files of JSON records or Parquet"});
}

} // namespace trivium
