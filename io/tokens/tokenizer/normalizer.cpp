#include "io/tokens/tokenizer/normalizer.hpp"

#include "io/files/utf8.hpp"
#include "io/tokens/tokenizer/character.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Unicode's property White_Space.
bool is_space(std::uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

std::string with_replaced(std::string_view text, std::string_view what, std::string_view by)
{
    std::string result;
    result.reserve(text.size() + text.size() / 4);
    for (;;) {
        const std::size_t at = text.find(what);
        result += text.substr(0, at);
        if (at == std::string_view::npos)
            return result;
        result += by;
        text.remove_prefix(at + what.size());
    }
}

} // namespace

std::size_t space_at_begin(std::string_view text)
{
    std::size_t at = 0;
    while (at < text.size() && is_space(code_point(&text[at])))
        at += character_length(text[at]);
    return at;
}

std::size_t space_at_end(std::string_view text)
{
    std::size_t end = text.size();
    while (end > 0) {
        std::size_t begin = end - 1;
        while (begin > 0 && continues_character(text[begin]))
            --begin;
        if (!is_space(code_point(&text[begin])))
            break;
        end = begin;
    }
    return text.size() - end;
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps, const std::string& place) : steps_(steps)
{
    for (const NormalizerStep& step : steps_)
        if (step.kind == NormalizerStep::Kind::replace && !step.pattern.literal)
            patterns_.emplace_back(step.pattern, place, SplitMatcher::oniguruma);
}

std::string Normalizer::apply(std::string_view text, bool inside, MatchEffort& effort) const
{
    std::string result(text);
    std::size_t pattern = 0;
    for (const NormalizerStep& step : steps_) {
        using Kind = NormalizerStep::Kind;
        if (step.kind == Kind::form)
            result = to_form(step.form, result);
        else if (step.kind == Kind::lowercase)
            result = to_lower(result);
        else if (step.kind == Kind::charsmap)
            result = step.charsmap->apply(result);
        else if (step.kind == Kind::nmt)
            result = without_controls(result);
        else if (step.kind == Kind::strip_marks)
            result = without_marks(result);
        else if (step.kind == Kind::strip) {
            if (step.right)
                result.resize(result.size() - space_at_end(result));
            if (step.left)
                result.erase(0, space_at_begin(result));
        } else if (step.kind == Kind::prepend) {
            if (!result.empty() && !inside)
                result.insert(0, step.text);
        } else if (step.pattern.literal)
            result = with_replaced(result, step.pattern.pattern, step.text);
        else
            result = patterns_[pattern++].replace(result, effort, step.text);
    }
    return result;
}

bool Normalizer::keeps_words_apart(std::string& space) const
{
    constexpr std::string_view words = " ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    space = " ";
    for (const NormalizerStep& step : steps_) {
        using Kind = NormalizerStep::Kind;
        if (step.kind == Kind::strip || step.kind == Kind::lowercase)
            return false;
        const bool maps = step.kind == Kind::charsmap;
        if ((maps || step.kind == Kind::nmt || step.kind == Kind::strip_marks) && space != " ")
            return false;
        if (maps && std::ranges::any_of(words, [&](const char& c) {
                return step.charsmap->find({&c, 1}).has_value();
            }))
            return false;
        if (step.kind == Kind::replace) {
            if (!step.pattern.literal || step.pattern.pattern != space)
                return false;
            space = step.text;
        }
    }
    return !space.empty();
}

} // namespace trivium
