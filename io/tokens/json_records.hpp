#pragma once
// Files of JSON records: a sequence of objects (one per line or not), or a list of objects.
#include "base/units.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace trivium {

/// Splits a text into records without parsing them.
class JsonRecords {
public:
    /// `place`: the file's name, for messages. Both must outlive this object.
    JsonRecords(std::string_view text, const std::string& place);

    struct Record {
        std::string_view text; ///< from its '{' to its '}'
        i64 line = 1;          ///< where it begins
    };
    /// The next record; nullopt at the end. UserError ("FILE:LINE: is not valid JSON") if there is other text
    /// between records, or if the text ends within a record.
    std::optional<Record> next();
    /// Whether the text begins like an object or a list of objects.
    bool are_records() const { return begins_; }
    bool is_list() const { return list_; }

private:
    void skip_blanks();
    [[noreturn]] void refuse(const std::string& reason) const;
    char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    std::string_view text_;
    const std::string& place_;
    std::size_t at_ = 0;
    i64 line_ = 1, count_ = 0;
    bool list_ = false, begins_ = false, ended_ = false;
};

/// Whether a record has a string in the field `key`. UserError about `place` ("FILE:LINE") if it is not valid
/// JSON.
bool has_text(std::string_view record, const std::string& key, const std::string& place);
/// Whether a record has the fields of a chat (io/chat/conversation.hpp), or some of them and nothing in the
/// field `key`.
bool has_chat(std::string_view record, const std::string& key);
/// The name of a field that is a list of chats; "" if there is none.
std::string list_of_chats(std::string_view record);
/// The string in the field `key`. UserError if the record is not valid JSON, is not an object, or has no such
/// string.
std::string text_of_record(std::string_view record, const std::string& key, const std::string& place);

} // namespace trivium
