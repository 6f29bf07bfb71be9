#include "io/tokens/tokenizer/code_set.hpp"

#include <algorithm>
#include <oniguruma.h>
#include <string>

namespace trivium {

namespace {

/// Oniguruma's table of a class.
std::optional<CodeSet> table_of(int ctype)
{
    OnigCodePoint single_bytes = 0;
    const OnigCodePoint* ranges = nullptr;
    if (ctype < 0 ||
        OnigEncodingUTF8.get_ctype_code_range(static_cast<OnigCtype>(ctype), &single_bytes, &ranges) != 0 ||
        !ranges)
        return {};
    CodeSet set;
    for (OnigCodePoint i = 0; i < ranges[0]; ++i)
        if (ranges[1 + 2 * i] <= last_code)
            set.emplace_back(ranges[1 + 2 * i], std::min(ranges[2 + 2 * i], last_code));
    return joined(std::move(set));
}

} // namespace

CodeSet joined(CodeSet set)
{
    std::ranges::sort(set);
    CodeSet result;
    for (const auto& [from, to] : set) {
        if (!result.empty() && from <= result.back().second + 1)
            result.back().second = std::max(result.back().second, to);
        else
            result.emplace_back(from, to);
    }
    return result;
}

CodeSet complement(const CodeSet& set)
{
    CodeSet result;
    std::uint32_t next = 0;
    for (const auto& [from, to] : set) {
        if (from > next)
            result.emplace_back(next, from - 1);
        next = to + 1;
    }
    if (next <= last_code)
        result.emplace_back(next, last_code);
    return result;
}

std::optional<CodeSet> code_class(CodeClass kind)
{
    return table_of(kind == CodeClass::space   ? ONIGENC_CTYPE_SPACE
                    : kind == CodeClass::digit ? ONIGENC_CTYPE_DIGIT
                                               : ONIGENC_CTYPE_WORD);
}

std::optional<CodeSet> code_class(std::string_view property)
{
    std::string name(property);
    auto* const begin = reinterpret_cast<OnigUChar*>(name.data());
    return table_of(OnigEncodingUTF8.property_name_to_ctype(&OnigEncodingUTF8, begin, begin + name.size()));
}

} // namespace trivium
