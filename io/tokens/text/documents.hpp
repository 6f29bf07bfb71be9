#pragma once
// The documents of a block of text.
#include "io/chat/conversation.hpp"
#include "io/tokens/text/text_blocks.hpp"

#include <functional>

namespace trivium {

/// What a block had, besides its documents.
struct BlockOutcome {
    bool read = false;                  ///< its file counts as read
    bool records = false;               ///< its file has records
    std::map<std::string, i64> forms{}; ///< records by form, if chats are looked for
    std::string hint{};                 ///< what may not be as it was meant; may be empty
    /// What was left out, in order, and the line or row of a bad record; 0: the whole file.
    std::vector<std::pair<CorpusReport::Skipped, i64>> skipped{};
};

struct ReadDocument {
    std::string text{}; ///< never empty, unless it is a chat; may be moved from
    i64 line = 0;       ///< or row, for place_of(); 0: the file
    Bytes bytes = 0;    ///< of the text, or of the record of a chat
    std::optional<Conversation> chat{};
};

/// Calls `take` with each document, in order. Files that are not text are left out if they were found in a
/// folder, or with skip_bad, and so are bad records; otherwise UserError.
BlockOutcome read_documents(TextBlock& block, const RecordRule& rule,
                            const std::function<void(ReadDocument& document)>& take);

/// A record that is not valid JSON or UTF-8, has neither text nor a chat, or cannot be tokenized.
CorpusReport::Skipped bad_record();

} // namespace trivium
