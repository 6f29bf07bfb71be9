#pragma once
// Texts that remember where their parts came from.
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace trivium::jinja {

/// Of what a part of a text is: the words of message i, what was printed while a loop was at message i, or
/// what
/// `{% generation %}` enclosed.
struct Mark {
    enum class Kind : std::uint8_t { words, turn, generation };
    std::size_t begin = 0, end = 0; ///< bytes
    Kind kind = Kind::words;
    i32 message = 0; ///< of words and turn
};

/// UTF-8, with marks that follow their bytes into parts and sums.
class MarkedText {
public:
    MarkedText() = default;
    explicit MarkedText(std::string text) : text_(std::move(text)) {}
    explicit MarkedText(std::string_view text) : text_(text) {}
    explicit MarkedText(const char* text) : text_(text) {}

    const std::string& text() const { return text_; }
    const std::vector<Mark>& marks() const { return marks_; }
    std::size_t size() const { return text_.size(); }

    /// Counts against the limits of the rendering. \throws Failure
    void append(std::string_view text);
    void append(const MarkedText& text);
    /// The bytes [begin, end).
    MarkedText part(std::size_t begin, std::size_t end) const;
    /// Marks the bytes [begin, end), unless there are none.
    void mark(std::size_t begin, std::size_t end, Mark::Kind kind, i32 message);
    /// The same marks on a text of as many bytes, or none if their numbers differ.
    MarkedText with_text(std::string text) const;

private:
    std::string text_;
    std::vector<Mark> marks_;
};

} // namespace trivium::jinja
