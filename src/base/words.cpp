#include "base/words.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <utility>

namespace trivium {

namespace {

constexpr std::size_t max_length = 64; ///< of a word that may be a typing error

/// Insertions, deletions, substitutions, and swaps of neighbours (optimal string alignment). Small and
/// capital letters are equal.
std::size_t edit_distance(std::string_view a, std::string_view b)
{
    const auto same = [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    };
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1); // of the last three prefixes of a
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        before = std::exchange(last, row);
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, last[j] + (same(a[i], b[j]) ? 0 : 1)});
            if (i > 0 && j > 0 && same(a[i], b[j - 1]) && same(a[i - 1], b[j]))
                row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
        }
    }
    return row[b.size()];
}

} // namespace

std::string lower_case(std::string text)
{
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known)
{
    std::string best;
    if (word.size() > max_length)
        return best;
    std::size_t best_distance = std::max<std::size_t>(3, word.size() / 2 + 1);
    for (const std::string& candidate : known) {
        if (candidate.size() > max_length)
            continue;
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance &&
            distance < std::max(word.size(), candidate.size())) { // they share at least one letter
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         const std::string& otherwise)
{
    const std::string near = nearest_word(word, known);
    return near.empty() ? otherwise : "did you mean '" + near + "'?";
}

std::string joined_words(const std::vector<std::string>& words, std::string_view separator)
{
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text.append(i ? separator : "").append(words[i]);
    return text;
}

std::string one_of(const std::vector<std::string>& words)
{
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return text;
}

std::vector<int> numbers_of(const std::vector<std::string>& words)
{
    std::map<std::string, int> seen;
    std::vector<int> numbers;
    for (const std::string& word : words)
        numbers.push_back(seen.try_emplace(word, static_cast<int>(seen.size())).first->second);
    return numbers;
}

} // namespace trivium
