#pragma once
// Reads the documents of a text corpus one after another, in a defined order and with bounded memory.
#include "io/tokens/text/text_corpus.hpp"

#include <deque>

namespace trivium {

struct Document {
    std::string text;  ///< valid UTF-8, never empty
    std::string place; ///< "file", "file:line" or "file, row n"
};

/// A file of UTF-8 text is one document. In .jsonl, .ndjson and .json files each JSON record is one document:
/// one object per line, a sequence of objects, or a list. A .json file counts as records only if its first
/// record has the field `key`; a single object without that field is text. Each row of a Parquet file is one
/// document: its text in the column `key`. Compressed files (.gz, .zst) are
/// read as what they contain. Folders are searched recursively
/// (io/tokens/text_files.hpp); files in them that are not text are skipped and reported. Empty documents are
/// skipped. Holds the documents of one block in memory, but all of a file of records that are not one per
/// line.
class TextSource {
public:
    /// Errors as TextCorpus.
    explicit TextSource(TextSelection selection);

    /// Reads the next document; false after the last. UserError (with file, and byte offset or line) if a
    /// named input is not text, a record is not valid JSON or has no text, or the corpus has no document;
    /// with selection.skip_bad, counts bad files and records instead. IoError.
    bool next(Document& document);

    Bytes bytes_total() const { return corpus_.bytes_total(); }    ///< size of all files
    Bytes bytes_done() const { return found_.bytes; }              ///< read or skipped so far
    i64 documents() const { return documents_; }                   ///< returned so far
    CorpusReport report() const { return corpus_.report(found_); } ///< so far

private:
    TextCorpus corpus_;
    TextBlocks blocks_;
    TextCorpus::Found found_;
    std::deque<Document> waiting_;
    i64 documents_ = 0;
};

} // namespace trivium
