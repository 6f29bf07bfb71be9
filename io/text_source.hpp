#pragma once
// Documents of a text corpus, one after another, in a stated order and with bounded memory.
#include "base/units.hpp"

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct Document {
    std::string text;  ///< valid UTF-8, never empty
    std::string place; ///< "file" or "file:line"
};

/// Inputs: text files (one document each), *.jsonl and *.ndjson (one JSON object and document a line),
/// folders (all of .txt .text .md .jsonl .ndjson and names without extension below it, sorted by path).
/// Empty documents are left out. At most one document and one block are held.
class TextSource {
public:
    /// `key`: the field of a JSON object that holds the text.
    /// UserError where an input is missing, a folder has no text, or a kind is not read (.gz).
    explicit TextSource(const std::vector<std::string>& inputs, std::string key = "text");

    /// The next document, false after the last. UserError with file and byte offset (not UTF-8) or
    /// file:line (bad JSON), and where the whole corpus has no document.
    bool next(Document& document);

    Bytes bytes_total() const { return bytes_total_; } ///< of all files
    Bytes bytes_done() const { return bytes_done_; }   ///< of the files, read so far
    i64 documents() const { return documents_; }       ///< given out so far
    const std::vector<std::string>& files() const { return files_; }

private:
    bool next_line(Document& document);
    void next_text(Document& document);

    std::vector<std::string> files_;
    std::string key_, line_;
    std::size_t file_ = 0; ///< being read, or next
    std::ifstream lines_;  ///< open while a JSONL file is read
    i64 line_number_ = 0;
    Bytes line_begin_ = 0, bytes_total_ = 0, bytes_done_ = 0;
    i64 documents_ = 0;
};

/// Offset of the first byte that is not UTF-8 (overlong forms and surrogates included), or -1.
i64 first_invalid_utf8(std::string_view text);

} // namespace trivium
