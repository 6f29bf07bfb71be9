#include "io/tokens/text/text_corpus.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

void add_skipped(CorpusReport& report, const CorpusReport::Skipped& kind)
{
    auto known = std::ranges::find_if(
        report.skipped, [&](const CorpusReport::Skipped& each) { return each.what == kind.what; });
    if (known == report.skipped.end())
        report.skipped.push_back(kind);
    else
        known->count += kind.count;
}

} // namespace

TextCorpus::TextCorpus(TextSelection selection)
    : selection_(std::move(selection)), key_(selection_.key.empty() ? "text" : selection_.key)
{
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
    for (const CorpusReport::Skipped& kind : next.report.skipped)
        add_skipped(report, kind);
    documents += next.documents;
    record_files += next.record_files;
    bytes += next.bytes;
    return *this;
}

std::string TextCorpus::Found::to_text() const
{
    Json read = Json::array(), skipped = Json::array();
    for (const auto& [suffix, count] : report.read)
        read.push_back({suffix, count.files, count.documents});
    for (const CorpusReport::Skipped& kind : report.skipped)
        skipped.push_back({kind.what, kind.what_plural, kind.remedy, kind.example, kind.count});
    return Json{documents, record_files, bytes, read, skipped}.dump(-1, ' ', false,
                                                                    Json::error_handler_t::replace);
}

TextCorpus::Found TextCorpus::Found::from_text(const std::string& text)
{
    const Json all = Json::parse(text);
    Found found;
    found.documents = all[0].get<i64>();
    found.record_files = all[1].get<i64>();
    found.bytes = all[2].get<Bytes>();
    for (const Json& each : all[3])
        found.report.read[each[0].get<std::string>()] = {each[1].get<i64>(), each[2].get<i64>()};
    for (const Json& each : all[4])
        found.report.skipped.push_back({each[0].get<std::string>(), each[1].get<std::string>(),
                                        each[2].get<std::string>(), each[3].get<std::string>(),
                                        each[4].get<i64>()});
    return found;
}

void TextCorpus::add(Found& found, const TextBlock& block, const BlockOutcome& outcome, i64 documents)
{
    found.documents += documents;
    found.bytes += block.input_bytes;
    found.record_files += outcome.read && outcome.records;
    for (const auto& [kind, line] : outcome.skipped) {
        CorpusReport::Skipped one = kind;
        one.count = 1;
        const bool known = std::ranges::any_of(
            found.report.skipped, [&, &what = kind.what](const auto& each) { return each.what == what; });
        if (!known) // to find the place may mean to read the file
            one.example = place_of(block, line);
        add_skipped(found.report, one);
    }
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
        add_skipped(all, kind);
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
