#pragma once
// The files of a corpus, and the account of what was read and left out.
#include "io/tokens/text/documents.hpp"

namespace trivium {

class TextCorpus {
public:
    /// Errors as list_text_files; UserError also if a `key` is set and no input can have records.
    explicit TextCorpus(TextSelection selection);

    const std::vector<TextFile>& files() const { return files_; }
    const RecordRule& rule() const { return rule_; }
    Bytes bytes_total() const { return bytes_total_; }
    /// UserError if an input cannot be read twice, or by several ranks (a pipe).
    void require_files(const std::string& reason) const;

    /// What was found so far. Those of consecutive parts may be added up.
    struct Found {
        CorpusReport report{};
        i64 documents = 0, record_files = 0;
        i64 answers = 0;         ///< chats that a template rendered and that have an answer to train
        i64 trained_answers = 0; ///< those of them with trained tokens
        Bytes bytes = 0;         ///< read or skipped

        Found& operator+=(const Found& next);
    };
    /// Adds a block that had `documents`.
    static void add(Found& found, const TextBlock& block, const BlockOutcome& outcome, i64 documents);

    /// With what was left out when the files were listed.
    CorpusReport report(const Found& found) const;
    /// To call after the last file. UserError if there was no document, or no record for a `key`.
    void check_end(const Found& found) const;

private:
    TextSelection selection_;
    RecordRule rule_;
    CorpusReport listed_;
    std::vector<TextFile> files_;
    Bytes bytes_total_ = 0;
};

} // namespace trivium
