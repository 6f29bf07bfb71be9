#pragma once
// Which input files a command read, and which it skipped.
#include "base/units.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace trivium {

/// The form of records that are not chats, in CorpusReport::forms.
inline constexpr const char* text_form = "text";

struct CorpusReport {
    struct Read {
        i64 files = 0, documents = 0;
    };
    struct Skipped {
        std::string what;        ///< singular: "compressed file"
        std::string what_plural; ///< plural
        std::string remedy{};    ///< may be empty
        std::string example{};   ///< path of the first file
        i64 count = 1;
    };
    /// Of files with records of chats: by path the number of records of each form, by its name.
    std::map<std::string, std::map<std::string, i64>> forms{};
    std::map<std::string, Read> read; ///< by suffix (".txt"); "" for names without one
    std::vector<Skipped> skipped;     ///< by kind, in order of appearance
    std::set<std::string> hints{};    ///< what may not be as it was meant, each with its file

    /// Adds what was skipped to that of the same kind, whose example stays. Returns the kind's entry.
    Skipped& skip(const Skipped& kind);
};

/// "3 .txt, 2 .jsonl (40 documents), 1 file without a suffix": one line, the most frequent suffixes first.
std::string describe_read(const CorpusReport& report);
/// A line for each file with chats: "a.jsonl: 80 messages, 3 text"; of many files the first ones, then their
/// sum.
std::vector<std::string> describe_chats(const CorpusReport& report);
/// One line per kind of skipped file: "2 compressed files, such as a.gz; decompress them first".
std::vector<std::string> describe_skipped(const CorpusReport& report);

} // namespace trivium
