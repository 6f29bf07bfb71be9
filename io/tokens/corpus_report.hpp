#pragma once
// What a command read of the files that it was given, and what it left out.
#include "base/units.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct CorpusReport {
    struct Read {
        i64 files = 0, documents = 0;
    };
    struct Skipped {
        std::string what; ///< of one: "compressed file"
        std::string what_of_several;
        std::string remedy; ///< may be empty
        std::string example;
        i64 count = 0;
    };
    std::map<std::string, Read> read; ///< by suffix (".txt"), "" where a name has none
    std::vector<Skipped> skipped;     ///< by kind, in order of appearance

    void skip(const Skipped& kind, const std::string& path);
};

/// "3 .txt, 2 .jsonl (40 documents), 1 file without a suffix"; no more than a line.
std::string describe_read(const CorpusReport& report);
/// A line for each kind of what was left out: "2 compressed files, such as a.gz; decompress them first".
std::vector<std::string> describe_skipped(const CorpusReport& report);

} // namespace trivium
