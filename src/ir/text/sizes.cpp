#include "ir/text/sizes.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/text/attribute_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

namespace trivium {

namespace {

constexpr std::string_view operators = "+-*/^";

/// A number that may be exact.
struct Number {
    double real = 0;
    std::optional<i64> whole;
};

class Expression {
public:
    Expression(std::string_view text, const NamedSizes& sizes, const std::string& place)
        : text_(text), sizes_(sizes), place_(place)
    {
    }

    std::string value()
    {
        Number sum = product();
        while (at_ < text_.size()) {
            const char sign = text_[at_++];
            const Number next = product();
            sum = combined(sum, sign, next);
        }
        return sum.whole ? std::to_string(*sum.whole) : print_real(sum.real);
    }

private:
    [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const
    {
        throw UserError({place_, str("'", text_, "' ", problem), "", remedy});
    }

    Number product()
    {
        Number all = power();
        while (at_ < text_.size() && (text_[at_] == '*' || text_[at_] == '/')) {
            const char sign = text_[at_++];
            all = combined(all, sign, power());
        }
        return all;
    }

    Number power()
    {
        const Number base = term();
        if (at_ == text_.size() || text_[at_] != '^')
            return base;
        ++at_;
        const Number exponent = term();
        if (!base.whole || !exponent.whole || *exponent.whole < 0) {
            const double real = std::pow(base.real, exponent.real);
            if (!std::isfinite(real))
                fail("is not a finite number", "use another power");
            return {real, {}};
        }
        if (*exponent.whole > 62)
            fail("is too large", "use a smaller power");
        Number made{1, 1};
        for (i64 i = 0; i < *exponent.whole; ++i)
            made = combined(made, '*', base);
        return made;
    }

    Number term()
    {
        const std::size_t end =
            std::min(text_.find_first_of(operators, at_ + (at_ == 0 ? 1 : 0)), text_.size());
        const std::string_view word = text_.substr(at_, end - at_);
        at_ = end;
        if (const auto size = sizes_.find(word); size != sizes_.end())
            return {static_cast<double>(size->second), size->second};
        i64 whole = 0;
        const char* const last = word.data() + word.size();
        if (const auto [stop, error] = std::from_chars(word.data(), last, whole);
            error == std::errc{} && stop == last)
            return {static_cast<double>(whole), whole};
        double real = 0;
        if (const auto [stop, error] = std::from_chars(word.data(), last, real);
            error == std::errc{} && stop == last && std::isfinite(real))
            return {real, {}};
        std::vector<std::string> names;
        for (const auto& [name, value] : sizes_)
            names.push_back(name);
        fail(str("has '", word, "', which is neither a number nor a size"),
             did_you_mean(std::string(word), names, "declare sizes before their use, like `size b=8`"));
    }

    Number combined(const Number& a, char sign, const Number& b)
    {
        if (sign == '/' && b.real == 0)
            fail("divides by zero", "use another size");
        const bool exact = a.whole && b.whole;
        Number made;
        if (!exact) {
            made.real = sign == '+'   ? a.real + b.real
                        : sign == '-' ? a.real - b.real
                        : sign == '*' ? a.real * b.real
                                      : a.real / b.real;
            return made;
        }
        i64 whole = 0;
        bool overflows = false;
        if (sign == '/') {
            if (*a.whole % *b.whole != 0)
                fail(str("leaves a remainder: ", *a.whole, " / ", *b.whole),
                     "choose sizes that divide, or write a real number, like 1.0/b");
            whole = *a.whole / *b.whole;
        } else {
            overflows = sign == '+'   ? __builtin_add_overflow(*a.whole, *b.whole, &whole)
                        : sign == '-' ? __builtin_sub_overflow(*a.whole, *b.whole, &whole)
                                      : __builtin_mul_overflow(*a.whole, *b.whole, &whole);
        }
        if (overflows)
            fail("is too large", "use smaller sizes");
        made.whole = whole;
        made.real = static_cast<double>(whole);
        return made;
    }

    std::string_view text_;
    const NamedSizes& sizes_;
    const std::string& place_;
    std::size_t at_ = 0;
};

/// Whether some term of `text` is, or looks like, the name of a size.
bool has_name(std::string_view text)
{
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find_first_of(operators, begin), text.size());
        const char first = end > begin ? text[begin] : '0';
        if ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_')
            return true;
        begin = end + 1;
    }
    return false;
}

} // namespace

bool mentions(std::string_view expression, std::string_view name)
{
    for (std::size_t begin = 0; begin < expression.size();) {
        const std::size_t end = std::min(expression.find_first_of(operators, begin), expression.size());
        if (expression.substr(begin, end - begin) == name)
            return true;
        begin = end + 1;
    }
    return false;
}

std::string evaluated(std::string_view text, const NamedSizes& sizes, const std::string& place)
{
    if (sizes.empty() || text.empty() || !has_name(text))
        return std::string(text);
    return Expression(text, sizes, place).value();
}

std::string evaluated_list(std::string_view text, const NamedSizes& sizes, const std::string& place)
{
    if (sizes.empty())
        return std::string(text);
    std::string list;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        list += evaluated(text.substr(begin, end - begin), sizes, place);
        list += end < text.size() ? " " : "";
        begin = end + 1;
    }
    return list;
}

} // namespace trivium
