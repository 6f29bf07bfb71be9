#pragma once
// Documents of a text corpus, one after another, in a stated order and with bounded memory.
#include "io/tokens/corpus_report.hpp"
#include "io/tokens/json_records.hpp"
#include "io/tokens/text_files.hpp"

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct Document {
    std::string text;  ///< valid UTF-8, never empty
    std::string place; ///< "file" or "file:line"
};

/// Files of UTF-8 text, a document each; of the suffixes .jsonl, .ndjson and .json those with JSON records, a
/// document a record: an object a line, or objects one after another or in a list. Of .json only files whose
/// first record has the key's field, and no others with records: a lone object without it is text. Folders
/// are walked (io/tokens/text_files.hpp); what is no text there is left out and reported. Empty documents are
/// left out. At most one document and one block are held; of a .json that is not of lines, the whole file.
class TextSource {
public:
    /// UserError if an input is missing, or a part of the selection can apply to nothing.
    explicit TextSource(TextSelection selection);

    /// The next document, false after the last. UserError with the file, and byte offset or line: an input
    /// that was named is no text, a record is not valid JSON or has no text, the whole corpus has no
    /// document.
    bool next(Document& document);
    /// Begins again with the first. UserError if an input cannot be read twice (a pipe).
    void rewind();

    Bytes bytes_total() const { return bytes_total_; } ///< of all files
    Bytes bytes_done() const { return bytes_done_; }   ///< of the files, read so far
    i64 documents() const { return documents_; }       ///< given out so far
    const std::vector<TextFile>& files() const { return files_; }
    const CorpusReport& report() const { return report_; } ///< so far

private:
    enum class Form { none, text, lines, records };

    /// How the file is to be read; none where it is left out. Reads all of it, but of lines.
    Form open(const TextFile& file);
    Form form_of_json(const TextFile& file);
    bool begins_as_lines(const std::string& path);
    bool take_text(Document& document);
    bool take_line(Document& document);
    bool take_record(Document& document);
    /// Leaves a file of a folder out. UserError for one that was named.
    Form leave_out(const TextFile& file, const NotText& why);
    /// After the last file. UserError if there was no document, or the key was given for nothing.
    void check_end() const;
    const TextFile& file() const { return files_[file_]; }

    TextSelection selection_;
    std::string key_;
    CorpusReport listed_, report_; ///< after listing; so far
    std::vector<TextFile> files_;
    std::size_t file_ = 0; ///< being read, or next
    Form form_ = Form::none;
    std::string content_, line_;
    std::optional<JsonRecords> records_;
    std::ifstream lines_;
    i64 line_number_ = 0, documents_ = 0, record_files_ = 0;
    Bytes line_begin_ = 0, bytes_total_ = 0, bytes_done_ = 0;
};

} // namespace trivium
