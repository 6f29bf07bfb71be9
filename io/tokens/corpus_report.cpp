#include "io/tokens/corpus_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>

namespace trivium {

CorpusReport::Skipped& CorpusReport::skip(const Skipped& kind)
{
    const auto known = std::ranges::find(skipped, kind.what, &Skipped::what);
    if (known == skipped.end())
        return skipped.emplace_back(kind);
    known->count += kind.count;
    return *known;
}

std::string describe_read(const CorpusReport& report)
{
    constexpr std::size_t max_kinds = 8;
    std::vector<std::pair<std::string, CorpusReport::Read>> kinds(report.read.begin(), report.read.end());
    std::ranges::stable_sort(kinds,
                             [](const auto& a, const auto& b) { return a.second.files > b.second.files; });
    std::string text;
    i64 others = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        const auto& [suffix, read] = kinds[i];
        if (i >= max_kinds) {
            others += read.files;
            continue;
        }
        text += text.empty() ? "" : ", ";
        text += suffix.empty() ? counted_in_groups(read.files, "file") + " without a suffix"
                               : str(format_count(read.files), " ", suffix);
        if (read.documents != read.files)
            text += str(" (", counted_in_groups(read.documents, "document"), ")");
    }
    if (others > 0)
        text +=
            str(", ", counted_in_groups(others, "file"), " of ", kinds.size() - max_kinds, " other kinds");
    return text.empty() ? "no file" : text;
}

std::vector<std::string> describe_chats(const CorpusReport& report)
{
    constexpr std::size_t most_files = 20;
    std::vector<std::string> lines;
    i64 files = 0;
    std::map<std::string, i64> others; // by form
    const auto describe = [](const std::map<std::string, i64>& forms) {
        std::string text;
        for (const auto& [form, count] : forms)
            text += str(text.empty() ? "" : ", ", format_count(count), " ", form);
        return text;
    };
    for (const auto& [path, forms] : report.forms) {
        if (forms.size() == 1 && forms.begin()->first == text_form)
            continue;
        if (lines.size() < most_files) {
            lines.push_back(str(path, ": ", describe(forms)));
            continue;
        }
        ++files;
        for (const auto& [form, count] : forms)
            others[form] += count;
    }
    if (files > 0)
        lines.push_back(str(counted_in_groups(files, "more file"), ": ", describe(others)));
    return lines;
}

std::vector<std::string> describe_skipped(const CorpusReport& report)
{
    std::vector<std::string> lines;
    for (const CorpusReport::Skipped& kind : report.skipped) {
        const bool one = kind.count == 1;
        lines.push_back(str(format_count(kind.count), " ", one ? kind.what : kind.what_plural,
                            one ? ", " : ", such as ", kind.example, kind.remedy.empty() ? "" : "; ",
                            kind.remedy));
    }
    return lines;
}

} // namespace trivium
