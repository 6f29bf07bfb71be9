#include "io/tokens/text/plain_record.hpp"

#include <cstdint>

namespace trivium {

namespace {

constexpr int deepest = 32;

/// Each function moves over one thing; false if it is not valid JSON, or too unusual.
class RecordScan {
public:
    RecordScan(std::string_view record, std::string_view key, std::string& text, bool chats)
        : at_(record.data()), end_(at_ + record.size()), key_(key), text_(text), chats_(chats)
    {
    }

    bool scan()
    {
        blanks();
        if (!object(0))
            return false;
        blanks();
        return at_ == end_ && found_;
    }

private:
    void blanks()
    {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n'))
            ++at_;
    }
    bool take(char c)
    {
        if (at_ == end_ || *at_ != c)
            return false;
        ++at_;
        return true;
    }
    bool word(std::string_view text)
    {
        if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(text))
            return false;
        at_ += text.size();
        return true;
    }

    bool object(int depth)
    {
        if (!take('{') || depth > deepest)
            return false;
        blanks();
        if (take('}'))
            return true;
        for (std::string name;;) {
            blanks();
            name.clear();
            if (!string(depth == 0 ? &name : nullptr))
                return false;
            blanks();
            if (!take(':'))
                return false;
            blanks();
            if (chats_ && depth == 0 &&
                (name == "messages" || name == "conversations" || name == "conversation" ||
                 name == "completion" || name == "output"))
                return false;
            if (depth == 0 && name == key_) {
                text_.clear();
                if (found_ || !string(&text_))
                    return false;
                found_ = true;
            } else if (!value(depth))
                return false;
            blanks();
            if (take('}'))
                return true;
            if (!take(','))
                return false;
        }
    }

    bool array(int depth)
    {
        if (!take('[') || depth > deepest)
            return false;
        blanks();
        if (take(']'))
            return true;
        for (;;) {
            blanks();
            if (!value(depth))
                return false;
            blanks();
            if (take(']'))
                return true;
            if (!take(','))
                return false;
        }
    }

    bool value(int depth)
    {
        if (at_ == end_)
            return false;
        switch (*at_) {
        case '"': return string(nullptr);
        case '{': return object(depth + 1);
        case '[': return array(depth + 1);
        case 't': return word("true");
        case 'f': return word("false");
        case 'n': return word("null");
        default: return number();
        }
    }

    bool digits()
    {
        const char* const begin = at_;
        while (at_ != end_ && *at_ >= '0' && *at_ <= '9')
            ++at_;
        return at_ != begin;
    }

    bool number()
    {
        const char* const begin = at_;
        take('-');
        if (!take('0') && !digits())
            return false;
        if (take('.') && !digits())
            return false;
        if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            if (!take('+'))
                take('-');
            const char* const exponent = at_;
            if (!digits() || at_ - exponent > 2)
                return false;
        }
        return at_ - begin < 200; // with more digits, or a larger exponent, it may be out of range
    }

    bool hexadecimal(std::uint32_t& code)
    {
        code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            if (at_ == end_)
                return false;
            const char c = *at_;
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0)
                return false;
            code = code << 4 | static_cast<std::uint32_t>(digit);
        }
        return true;
    }

    static void append(std::uint32_t code, std::string& to)
    {
        const auto byte = [&](std::uint32_t value) { to += static_cast<char>(value); };
        if (code < 0x80)
            return byte(code);
        if (code < 0x800)
            byte(0xc0 | code >> 6);
        else {
            if (code < 0x10000)
                byte(0xe0 | code >> 12);
            else {
                byte(0xf0 | code >> 18);
                byte(0x80 | (code >> 12 & 0x3f));
            }
            byte(0x80 | (code >> 6 & 0x3f));
        }
        byte(0x80 | (code & 0x3f));
    }

    bool escape(std::string* to)
    {
        if (at_ == end_)
            return false;
        const char c = *at_++;
        constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
        if (const std::size_t i = names.find(c); i != std::string_view::npos) {
            if (to)
                *to += values[i];
            return true;
        }
        std::uint32_t code = 0, low = 0;
        if (c != 'u' || !hexadecimal(code) || (code >= 0xdc00 && code < 0xe000))
            return false;
        if (code >= 0xd800 && code < 0xdc00) { // the first of a pair
            if (!word("\\u") || !hexadecimal(low) || low < 0xdc00 || low >= 0xe000)
                return false;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        if (to)
            append(code, *to);
        return true;
    }

    bool string(std::string* to)
    {
        if (!take('"'))
            return false;
        for (;;) {
            const char* const begin = at_;
            while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
                ++at_;
            if (to)
                to->append(begin, at_);
            if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20)
                return false;
            if (*at_++ == '"')
                return true;
            if (!escape(to))
                return false;
        }
    }

    const char *at_, *end_;
    std::string_view key_;
    std::string& text_;
    bool chats_, found_ = false;
};

} // namespace

bool plain_text_of_record(std::string_view record, std::string_view key, std::string& text, bool chats)
{
    return RecordScan(record, key, text, chats).scan();
}

} // namespace trivium
