#include "io/tokens/json_records.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

namespace {

constexpr const char* repair = "repair or remove this record; or leave the file out (--exclude)";

nlohmann::json parse_record(std::string_view record, const std::string& place)
{
    try {
        return nlohmann::json::parse(record);
    } catch (const nlohmann::json::exception& error) {
        // `place` has the line on which the record begins; records over several lines are rare.
        const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&error);
        throw UserError({place, "is not valid JSON",
                         str(parse ? str("column ", parse->byte, ": ") : "", reason_of(error)), repair});
    }
}

/// "a list", for messages.
std::string kind_of(const nlohmann::json& value)
{
    const std::string name = value.is_array()     ? "list"
                             : value.is_boolean() ? "truth value"
                                                  : value.type_name();
    return value.is_null() ? "null" : str(value.is_object() ? "an " : "a ", name);
}

} // namespace

JsonRecords::JsonRecords(std::string_view text, const std::string& place) : text_(text), place_(place)
{
    skip_blanks();
    if (here() == '[') {
        list_ = true;
        ++at_;
        skip_blanks();
    }
    begins_ = here() == '{';
}

void JsonRecords::skip_blanks()
{
    for (; at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos;
         ++at_)
        line_ += text_[at_] == '\n' ? 1 : 0;
}

void JsonRecords::refuse(const std::string& reason) const
{
    throw UserError({str(place_, ":", line_), "is not valid JSON", reason, repair});
}

std::optional<JsonRecords::Record> JsonRecords::next()
{
    skip_blanks();
    if (list_ && !ended_ && here() == ']') {
        ended_ = true;
        ++at_;
        skip_blanks();
    } else if (list_ && count_ > 0 && !ended_) {
        if (here() != ',')
            refuse(at_ == text_.size() ? "the list does not end"
                                       : "two records of a list are not separated by a comma");
        ++at_;
        skip_blanks();
    }
    if (at_ == text_.size() && (ended_ || !list_))
        return {};
    if (here() != '{' || ended_)
        refuse(at_ == text_.size() ? "the list does not end" : "expected an object here");
    const Record begin{text_.substr(at_), line_};
    int depth = 0;
    bool quoted = false;
    for (const std::size_t first = at_; at_ < text_.size(); ++at_) {
        const char c = text_[at_];
        line_ += c == '\n' ? 1 : 0;
        if (quoted) {
            if (c == '\\')
                ++at_;
            else if (c == '"')
                quoted = false;
        } else if (c == '"')
            quoted = true;
        else if (c == '{' || c == '[')
            ++depth;
        else if ((c == '}' || c == ']') && --depth == 0) {
            ++at_;
            ++count_;
            return Record{text_.substr(first, at_ - first), begin.line};
        }
    }
    line_ = begin.line;
    refuse("the object that begins here does not end");
}

bool has_text(std::string_view record, const std::string& key, const std::string& place)
{
    const nlohmann::json object = parse_record(record, place);
    return object.is_object() && object.contains(key) && object.at(key).is_string();
}

bool has_chat(std::string_view record, const std::string& key)
{
    const nlohmann::json object = nlohmann::json::parse(record, nullptr, false);
    const auto has = [&](const char* name) {
        const auto field = object.find(name);
        return field != object.end() && !field->is_null();
    };
    if (!object.is_object())
        return false;
    if (has("messages") || has("conversations") || has("conversation") ||
        (has("prompt") && has("completion")) || (has("instruction") && has("output")))
        return true;
    return !has(key.c_str()) &&
           (has("prompt") || has("instruction")); // it lacks something, which is an error
}

std::string list_of_chats(std::string_view record)
{
    const nlohmann::json object = nlohmann::json::parse(record, nullptr, false);
    if (object.is_object())
        for (const auto& [name, value] : object.items())
            if (value.is_array() && !value.empty() && has_chat(value.front().dump(), "text"))
                return name;
    return "";
}

std::string text_of_record(std::string_view record, const std::string& key, const std::string& place)
{
    const nlohmann::json object = parse_record(record, place);
    if (!object.is_object())
        throw UserError({place, str("is not a JSON object but ", kind_of(object)), "",
                         str("each record is an object like {\"", key, "\": \"…\"}")});
    const auto field = object.find(key);
    if (field == object.end()) {
        std::string names;
        for (const auto& [name, value] : object.items())
            if (names.size() < 200)
                names += (names.empty() ? "its fields are " : ", ") + in_quotes(name);
        throw UserError({place, str("has no field ", in_quotes(key)),
                         names.empty() ? "the object is empty" : names,
                         "name the field that holds the text with --key, or leave the file out (--exclude)"});
    }
    if (!field->is_string())
        throw UserError({place, str("its field ", in_quotes(key), " is not a string but ", kind_of(*field)),
                         "",
                         "name the field that holds the text with --key, or leave the file out (--exclude)"});
    return field->get<std::string>();
}

} // namespace trivium
