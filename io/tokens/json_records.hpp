#pragma once
// Files of JSON records: objects one after another, on lines of their own or not, or in a list.
#include "base/units.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace trivium {

/// Finds the records of a text without parsing them.
class JsonRecords {
public:
    /// `place`: the file's name, for messages. Both outlive it.
    JsonRecords(std::string_view text, const std::string& place);

    struct Record {
        std::string_view text; ///< from its '{' to its '}'
        i64 line = 1;          ///< where it begins
    };
    /// The next; nothing at the end. UserError ("FILE:LINE: is not valid JSON") where something else stands
    /// between records, or the text ends within one.
    std::optional<Record> next();
    /// Whether the text begins as a list of objects, or as an object.
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

/// Whether a record has text in the field `key`. UserError if the record, or `place` ("FILE:LINE"), is not
/// valid JSON.
bool has_text(std::string_view record, const std::string& key, const std::string& place);
/// The text of the field `key`. UserError if the record is not valid JSON, is no object, or has no such
/// text.
std::string text_of_record(std::string_view record, const std::string& key, const std::string& place);

} // namespace trivium
