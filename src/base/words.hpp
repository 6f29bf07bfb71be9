#pragma once
// Lists of words, and suggestions for names that a user misspelt.
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// The word in `known` nearest to `word` by edit distance (case is ignored), or "" if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

/// A remedy: "did you mean 'x'?", or `otherwise` if no known word is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         const std::string& otherwise);

/// With small letters (ASCII).
std::string lower_case(std::string text);

/// The words with `separator` between them: "data+tensor".
std::string joined_words(const std::vector<std::string>& words, std::string_view separator);

/// The words as one phrase: "a, b or c".
std::string one_of(const std::vector<std::string>& words);

/// Numbers words in order of appearance: the same word, the same number.
std::vector<int> numbers_of(const std::vector<std::string>& words);

} // namespace trivium
