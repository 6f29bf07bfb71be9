#pragma once
// A line of a graph's text with a cursor, for the parser.
#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/mesh.hpp"
#include "ir/text/attribute_text.hpp"
#include "ir/text/sizes.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// What the names in a line stand for.
struct Meanings {
    NamedSizes sizes;
    DType compute = DType::f32; ///< see TextSettings
};
inline const Meanings no_meanings;

/// A function that finds something else than it reads throws UserError with file, line and column. `line`,
/// `file` and `meanings` must outlive the cursor. `number` 0: the text is not from a file.
class Cursor {
public:
    Cursor(std::string_view line, const std::string& file, int number, const Meanings& meanings = no_meanings)
        : line_(line), file_(file), number_(number), meanings_(meanings)
    {
    }

    /// "FILE:12:5"; if the text is not from a file, the text itself.
    std::string place() const
    {
        return number_ > 0 ? str(file_, ":", number_, ":", at_ + 1) : str(file_, ", '", line_, "'");
    }

    [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const
    {
        throw UserError({place(), problem, "", remedy});
    }

    int number() const { return number_; }

    /// Throws if there are already `most`.
    void limit(std::size_t have, std::size_t most, const char* what) const
    {
        if (have >= most)
            fail(str("more than ", most, " ", what), "use a smaller graph");
    }

    void skip()
    {
        while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r'))
            ++at_;
    }

    /// Whether nothing follows but spaces and a comment.
    bool done()
    {
        skip();
        return at_ >= line_.size() || line_[at_] == '#';
    }

    /// Skips `token`, if it follows; returns whether it does.
    bool take(std::string_view token)
    {
        skip();
        if (line_.substr(at_, token.size()) != token)
            return false;
        at_ += token.size();
        return true;
    }

    bool starts_with(char c)
    {
        skip();
        return at_ < line_.size() && line_[at_] == c;
    }

    void want(std::string_view token)
    {
        if (!take(token))
            fail(str("expected '", token, "'"), "see docs/graphs.md for the grammar");
    }

    /// At least one character, up to a space or a delimiter.
    std::string word()
    {
        skip();
        const std::size_t begin = at_;
        while (at_ < line_.size() &&
               std::string_view(" \t\r,(){}=:[]\"%#").find(line_[at_]) == std::string_view::npos)
            ++at_;
        if (begin == at_)
            fail("expected a name", "see docs/graphs.md for the grammar");
        return std::string(line_.substr(begin, at_ - begin));
    }
    /// Lower-case letters, possibly none.
    std::string word_in_sharding()
    {
        skip();
        const std::size_t begin = at_;
        while (at_ < line_.size() && line_[at_] >= 'a' && line_[at_] <= 'z')
            ++at_;
        return std::string(line_.substr(begin, at_ - begin));
    }
    /// Digits only. \pre least >= 0
    i64 number(i64 least, i64 most)
    {
        const std::size_t begin = at_;
        i64 value = -1;
        const auto end = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value).ptr;
        at_ += static_cast<std::size_t>(end - (line_.data() + begin));
        if (value < least || value > most) {
            at_ = begin;
            fail(str("expected a number from ", least, " to ", most), "use another number");
        }
        return value;
    }
    std::string name()
    {
        if (!take("%"))
            fail("expected '%'", "begin the name of a value with %");
        return word();
    }

    i64 whole(i64 least, i64 most)
    {
        const std::size_t before = at_;
        const i64 value = whole();
        if (value < least || value > most) {
            at_ = before;
            fail(str(value, " is not in the range ", least, " to ", most), "use another number");
        }
        return value;
    }

    i64 whole()
    {
        const std::string text = evaluated(word(), meanings_.sizes, place());
        i64 value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size())
            fail(str("'", text, "' is not an integer"), "write an integer");
        return value;
    }

    /// The rest of a string after its opening quote.
    std::string quoted()
    {
        const std::size_t end = line_.find('"', at_);
        if (end == std::string_view::npos)
            fail("the string has no closing quote", "close it");
        const std::string text(line_.substr(at_, end - at_));
        at_ = end + 1;
        if (std::ranges::any_of(text, [](char ch) { return static_cast<unsigned char>(ch) >= 0x80; }))
            fail("the string is not plain ASCII", "use ASCII characters only");
        return text;
    }

    /// `name=value` fields between `open` and `close`; empty if `open` does not follow.
    std::vector<AttrText> fields(std::string_view open, std::string_view close)
    {
        std::vector<AttrText> list;
        if (!take(open))
            return list;
        while (!take(close)) {
            if (!list.empty())
                want(",");
            limit(list.size(), max_text_operands, "attributes");
            AttrText field;
            field.name = word();
            want("=");
            field.quoted = take("\"");
            field.place = place();
            field.text = field.quoted ? meaning_of(field.name, quoted(), field.place)
                                      : evaluated(word(), meanings_.sizes, field.place);
            list.push_back(std::move(field));
        }
        return list;
    }

    /// `batch`: gets the dimension whose extent names the size `b`, or -1; may be null.
    TensorType type(int* batch = nullptr)
    {
        TensorType made;
        if (batch)
            *batch = -1;
        const std::string name = word();
        if (const auto dtype = tensor_type_named(meaning_of_type(name)))
            made.dtype = *dtype;
        else
            fail(str("there is no element type '", name, "'"), "use f64, f32, bf16, i32 or compute");
        want("[");
        while (!take("]")) {
            if (!made.shape.empty())
                want(",");
            limit(made.shape.size(), max_dims, "dimensions");
            skip();
            const std::size_t begin = at_;
            made.shape.push_back(whole());
            if (batch && *batch < 0 && mentions(line_.substr(begin, at_ - begin), "b"))
                *batch = static_cast<int>(made.shape.size()) - 1;
        }
        return made;
    }

    /// "<data,tensor+data?@1,-|tensor:sum pipeline:replicated>", or nothing.
    Sharding sharding();
    /// The name of a mesh axis, "data", or of a sub-axis, "data:(2)4".
    std::string axis();

private:
    std::string meaning_of_type(const std::string& name) const;
    /// Of an attribute's quoted text.
    std::string meaning_of(const std::string& attribute, std::string text, const std::string& place) const;

    std::string_view line_;
    const std::string& file_;
    int number_;
    const Meanings& meanings_;
    std::size_t at_ = 0;
};

} // namespace trivium
