#pragma once
// Characters of UTF-8 texts, as Python's str sees them.
#include "io/chat/jinja/marked_text.hpp"

#include <optional>

namespace trivium::jinja {

/// The character that begins at `at`, and `at` behind it. A byte that is not UTF-8 is a character of its own.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& text, char32_t character);

i64 count_characters(std::string_view text);
/// The byte at which character `index` begins; the size behind the last one.
std::size_t offset_of_character(std::string_view text, i64 index);

bool is_space(char32_t character);
bool is_printable(char32_t character);
bool is_letter(char32_t character);
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_title(char32_t character);
bool is_decimal(char32_t character);
bool is_digit(char32_t character);
bool is_numeric(char32_t character);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The first character in title case, the others lower.
std::string to_capitalized(std::string_view text);
/// As Python's str.title().
std::string to_title(std::string_view text);
std::string swapped_case(std::string_view text);

/// The bytes that remain without white space, or without the characters of `characters`, at either end.
std::pair<std::size_t, std::size_t> stripped(std::string_view text, bool left, bool right,
                                             const std::optional<std::string>& characters = {});

} // namespace trivium::jinja
