#pragma once
// The text of a usual JSON record, without a tree of its values.
#include <string>
#include <string_view>

namespace trivium {

/// Sets `text` to the string in the field `key` of a JSON object. false if this is not certain: the record is
/// not valid JSON, has no such string or two of them, or nests deeply, or `chats` is set and it has a field
/// that chats have; then text_of_record or conversation_of_record decides. \pre valid UTF-8
bool plain_text_of_record(std::string_view record, std::string_view key, std::string& text,
                          bool chats = false);

} // namespace trivium
