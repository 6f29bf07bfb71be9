#pragma once
// Reads the documents of a text corpus one after another, in a defined order and with bounded memory.
#include "io/tokens/corpus_report.hpp"
#include "io/tokens/json_records.hpp"
#include "io/tokens/text_files.hpp"

#include <fstream>
#include <string>
#include <vector>

namespace trivium {

struct Document {
    std::string text;  ///< valid UTF-8, never empty
    std::string place; ///< "file" or "file:line"
};

/// A file of UTF-8 text is one document. In .jsonl, .ndjson and .json files each JSON record is one document:
/// one object per line, a sequence of objects, or a list. A .json file counts as records only if its first
/// record has the field `key`; a single object without that field is text. Folders are searched recursively
/// (io/tokens/text_files.hpp); files in them that are not text are skipped and reported. Empty documents are
/// skipped. Holds at most one document and one block in memory, but all of a file of records that are not one
/// per line.
class TextSource {
public:
    /// Errors as list_text_files; UserError also if a `key` is set and no input can have JSON records.
    explicit TextSource(TextSelection selection);

    /// Reads the next document; false after the last. UserError (with file, and byte offset or line) if a
    /// named input is not text, a record is not valid JSON or has no text, or the corpus has no document;
    /// with selection.skip_bad, counts bad files and records instead. IoError.
    bool next(Document& document);
    /// Starts again with the first document. UserError if an input cannot be read twice (a pipe).
    void rewind();
    /// Reports a document that next() returned as a bad record.
    void skip_bad(const std::string& place);

    Bytes bytes_total() const { return bytes_total_; }     ///< size of all files
    Bytes bytes_done() const { return bytes_done_; }       ///< read or skipped so far
    i64 documents() const { return documents_; }           ///< returned so far
    const CorpusReport& report() const { return report_; } ///< so far

private:
    enum class Form { none, text, lines, records };

    /// Determines how to read the file; Form::none if it is skipped. Loads the whole file unless it is read
    /// line by line.
    Form open(const TextFile& file);
    Form form_of_json(const TextFile& file);
    bool begins_as_lines(const std::string& path);
    bool take_text(Document& document);
    bool take_line(Document& document);
    bool take_record(Document& document);
    /// Skips a file and reports it. UserError if the file was named as an input, unless selection.skip_bad.
    Form skip(const TextFile& file, const NotText& why);
    Form leave_out(const TextFile& file, const CorpusReport::Skipped& kind); ///< without an error
    /// To call after the last file. UserError if there was no document, or no record for `key`.
    void check_end() const;
    const TextFile& file() const { return files_[file_]; }

    TextSelection selection_;
    std::string key_;
    CorpusReport listed_, report_; ///< listed_: after the files were listed; report_: so far
    std::vector<TextFile> files_;
    std::size_t file_ = 0; ///< the current file, or the next one
    Form form_ = Form::none;
    std::string content_, line_;
    std::optional<JsonRecords> records_;
    std::ifstream lines_;
    i64 line_number_ = 0, documents_ = 0, record_files_ = 0;
    Bytes line_begin_ = 0, bytes_total_ = 0, bytes_done_ = 0;
};

} // namespace trivium
