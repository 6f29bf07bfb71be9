#pragma once
// Texts that remember where their parts came from, what a rendering may cost, and characters as Python's str
// sees them. Templates come from the internet: an endless loop or a huge text must end in an error.
#include "base/units.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium::jinja {
/// What failed, without its place. Evaluating a template turns it into a UserError.
struct Failure {
    std::string problem;
};

inline constexpr i64 default_work = 20'000'000;                ///< steps of a rendering, a second or two
inline constexpr std::size_t max_text = std::size_t{64} << 20; ///< bytes of one text
inline constexpr i64 max_range = 100'000;                      ///< numbers of a range, as in jinja2's sandbox
inline constexpr int max_nesting = 400;                        ///< of evaluations
inline constexpr int max_value_depth = 200;                    ///< of lists and dicts

/// The renderings of this thread may take `steps` while this object exists.
class WorkLimit {
public:
    explicit WorkLimit(i64 steps);
    WorkLimit(const WorkLimit&) = delete;
    WorkLimit& operator=(const WorkLimit&) = delete;
    ~WorkLimit();

private:
    i64 before_;
};

/// While it exists, each WorkLimit of this thread is at most `steps`.
class WorkCap {
public:
    explicit WorkCap(i64 steps);
    WorkCap(const WorkCap&) = delete;
    WorkCap& operator=(const WorkCap&) = delete;
    ~WorkCap();

private:
    i64 before_;
};

/// Counts steps. \throws Failure if the limit is exceeded
void spend(std::size_t steps = 1);
/// Counts elements of a list that are copied, by their bytes. To be called before. \throws Failure
void spend_on_items(std::size_t items);
/// Counts `more` bytes that a text of `size` bytes gets. \throws Failure, also if it becomes too large
void spend_on_text(std::size_t size, std::size_t more);

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

/// The character that begins at `at`, and `at` behind it. A byte that is not UTF-8 is a character of its own.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& text, char32_t character);
i64 count_characters(std::string_view text);
/// The byte at which character `index` begins; the size behind the last one.
std::size_t offset_of_character(std::string_view text, i64 index);

bool is_space(char32_t character);
bool is_printable(char32_t character);
/// Has an upper and a lower case.
bool is_cased(char32_t character);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// Title case where `begins` holds for the character before (0 at the begin), lower case elsewhere.
std::string with_capitals(std::string_view text, bool (*begins)(char32_t before));

/// The bytes that remain without white space, or without the characters of `characters`, at either end.
std::pair<std::size_t, std::size_t> stripped(std::string_view text, bool left, bool right,
                                             const std::optional<std::string>& characters = {});

} // namespace trivium::jinja
