#pragma once
// The documents of a block of text.
#include "io/tokens/text/text_blocks.hpp"

#include <functional>

namespace trivium {

/// What a block had, besides its documents.
struct BlockOutcome {
    bool read = false;    ///< its file counts as read
    bool records = false; ///< its file has records
    /// What was left out, in order, and the line or row of a bad record; 0: the whole file.
    std::vector<std::pair<CorpusReport::Skipped, i64>> skipped{};
};

/// Calls `take` with each document, in order: its text, never empty, which may be moved from, and its line
/// or row for place_of (0: the file). `key`: the field of a record that has the text. Files that are not text
/// are left out if they were found in a folder, or with `skip_bad`, and so are bad records; otherwise
/// UserError.
BlockOutcome read_documents(TextBlock& block, const std::string& key, bool skip_bad,
                            const std::function<void(std::string& text, i64 line)>& take);

/// A record that is not valid JSON or UTF-8, has no text, or cannot be tokenized.
CorpusReport::Skipped bad_record();

} // namespace trivium
