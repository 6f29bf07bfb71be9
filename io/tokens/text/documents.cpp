#include "io/tokens/text/documents.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/json_records.hpp"
#include "io/tokens/text/plain_record.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

constexpr const char* leave_out_rows =
    "skip and count such rows with --skip-bad, or leave the file out (--exclude)";

NotText not_utf8(Bytes offset)
{
    return {{"file that is not UTF-8", "files that are not UTF-8",
             "convert (iconv -f LATIN1 -t UTF-8 FILE), if it is text"},
            str("is not UTF-8 at byte offset ", offset),
            "text must be UTF-8",
            "convert it (iconv -f LATIN1 -t UTF-8 FILE), or leave the file out"};
}

class DocumentReader {
public:
    DocumentReader(TextBlock& block, const RecordRule& rule, const std::function<void(ReadDocument&)>& take)
        : block_(block), rule_(rule), key_(rule.key), skip_bad_(rule.skip_bad), take_(take)
    {
    }

    BlockOutcome read()
    {
        if (block_.form == TextBlock::Form::none)
            skip(*block_.why);
        else if (block_.form == TextBlock::Form::lines)
            read_lines();
        else if (block_.form == TextBlock::Form::rows || block_.form == TextBlock::Form::records)
            read_rows();
        else
            read_whole();
        return std::move(outcome_);
    }

private:
    [[noreturn]] void refuse(const NotText& why) const
    {
        throw UserError({block_.file->path, why.problem, why.reason, why.remedy});
    }

    void leave_out(const CorpusReport::Skipped& kind) { outcome_.skipped.emplace_back(kind, 0); }

    /// A file that is not text.
    void skip(const NotText& why)
    {
        if (block_.file->named && !skip_bad_)
            refuse(why);
        leave_out(why.kind);
    }

    void take(std::string& text, i64 line)
    {
        if (text.empty())
            return;
        ReadDocument document{std::move(text), line};
        document.bytes = static_cast<Bytes>(document.text.size());
        take_(document);
    }

    void take_record(std::string_view record, i64 line)
    {
        std::string text;
        if (plain_text_of_record(record, key_, text, rule_.chats))
            return take_text(text, line);
        try {
            read_record(record, line, "");
        } catch (const UserError&) {
            if (!skip_bad_) // a place can take a pass over the file
                read_record(record, line, place_of(block_, line));
            outcome_.skipped.emplace_back(bad_record(), line);
        }
    }

    void read_record(std::string_view record, i64 line, const std::string& place)
    {
        if (!rule_.chats || !has_chat(record, key_)) {
            std::string text = text_of(record, place);
            return take_text(text, line);
        }
        Conversation chat = conversation_of_record(record, place);
        ++outcome_.forms[name_of(chat.form)];
        ReadDocument document{{}, line, static_cast<Bytes>(record.size()), std::move(chat)};
        take_(document);
    }

    /// As text_of_record(); where chats are read, the error names their forms, too.
    std::string text_of(std::string_view record, const std::string& place) const
    {
        if (const auto object = nlohmann::json::parse(record, nullptr, false);
            rule_.chats && object.is_object() && !object.contains(key_))
            conversation_of_record(record, place); // throws
        return text_of_record(record, key_, place);
    }

    void take_text(std::string& text, i64 line)
    {
        if (rule_.chats)
            ++outcome_.forms[text_form];
        take(text, line);
    }

    void read_lines()
    {
        outcome_.read = block_.first;
        outcome_.records = true;
        const std::string_view content = block_.content;
        i64 number = 0;
        for (std::size_t begin = 0, end = 0; begin < content.size(); begin = end + 1) {
            end = std::min(content.find('\n', begin), content.size());
            std::string_view line = content.substr(begin, end - begin);
            ++number;
            if (const i64 invalid = first_invalid_utf8(line); invalid >= 0) {
                if (!skip_bad_)
                    refuse(
                        not_utf8(block_.before_part + block_.offset + static_cast<Bytes>(begin) + invalid));
                outcome_.skipped.emplace_back(bad_record(), number);
                continue;
            }
            if (number == 1 && block_.at_begin && line.starts_with(byte_order_mark))
                line.remove_prefix(byte_order_mark.size());
            if (!is_blank(line))
                take_record(line, number);
        }
    }

    void read_rows()
    {
        outcome_.read = block_.first;
        outcome_.records = true;
        i64 number = 0;
        for (std::optional<std::string>& text : block_.rows) {
            ++number;
            const i64 invalid = text ? first_invalid_utf8(*text) : -1;
            if (text && invalid < 0) {
                if (block_.form == TextBlock::Form::records)
                    take_record(*text, number);
                else
                    take(*text, number);
                continue;
            }
            if (!skip_bad_ && text)
                throw UserError({place_of(block_, number),
                                 str("is not UTF-8 at byte offset ", invalid, " of its text"),
                                 "text must be UTF-8", leave_out_rows});
            if (!skip_bad_)
                throw UserError({place_of(block_, number), str("its column ", in_quotes(key_), " is null"),
                                 "", leave_out_rows});
            outcome_.skipped.emplace_back(bad_record(), number);
        }
    }

    void read_whole()
    {
        std::string& content = block_.content;
        if (const i64 invalid = first_invalid_utf8(content); invalid >= 0)
            return skip(not_utf8(invalid));
        if (content.starts_with(byte_order_mark))
            content.erase(0, byte_order_mark.size());
        if (is_blank(content))
            return leave_out({"empty file", "empty files"});
        if (block_.form == TextBlock::Form::json && read_records())
            return;
        if (!outcome_.skipped.empty()) // read_records left the file out
            return;
        outcome_.read = true;
        take(content, 0);
    }

    bool is_named_lines() const { return text_suffix(block_.file->path) != ".json"; }

    /// Whether the file has JSON records; then it is read, or left out.
    bool read_records()
    {
        const std::string& path = block_.file->path;
        JsonRecords records(block_.content, path);
        if (!records.are_records() && is_named_lines())
            text_of_record(block_.content, key_, path + ":1"); // throws: it is not an object
        if (!records.are_records())
            return false;
        try {
            const auto first = records.next();
            const std::string place = str(path, ":", first->line);
            const bool good = has_document(first->text, rule_, place);
            if (!good && (records.is_list() || records.next())) // throws with the fields that it has
                text_of(first->text, place);
            if (!good) {
                if (const std::string list = rule_.chats ? list_of_chats(first->text) : ""; !list.empty())
                    outcome_.hint = str(path, ": is read as one text, but its field ", in_quotes(list),
                                        " is a list of chats: make this list the whole file to read them");
                return false;
            }
        } catch (const UserError& error) {
            if ((block_.file->named || is_named_lines()) && !skip_bad_)
                throw;
            const std::string problem = error.what(); // "PLACE: PROBLEM\n  reason: …"
            if (problem.find("is not valid JSON") != std::string::npos)
                leave_out(
                    {"JSON file that is not valid", "JSON files that are not valid", "name it to see why"});
            else {
                const std::string without = str(" of JSON records without text in the field \"", key_, "\"");
                leave_out({"file" + without, "files" + without,
                           "name the field with --key, or leave them out with --exclude"});
            }
            return true;
        }
        outcome_.read = outcome_.records = true;
        JsonRecords all(block_.content, path);
        const auto next = [&]() -> std::optional<JsonRecords::Record> {
            try {
                return all.next();
            } catch (const UserError&) { // behind this, no record is found
                if (!skip_bad_)
                    throw;
                outcome_.skipped.emplace_back(bad_record(), 0);
                return {};
            }
        };
        while (const auto record = next())
            take_record(record->text, record->line);
        return true;
    }

    TextBlock& block_;
    const RecordRule& rule_;
    const std::string& key_;
    bool skip_bad_;
    const std::function<void(ReadDocument&)>& take_;
    BlockOutcome outcome_;
};

} // namespace

CorpusReport::Skipped bad_record() { return {"bad record", "bad records"}; }

BlockOutcome read_documents(TextBlock& block, const RecordRule& rule,
                            const std::function<void(ReadDocument& document)>& take)
{
    return DocumentReader(block, rule, take).read();
}

} // namespace trivium
