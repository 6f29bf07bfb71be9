#include "ir/factors.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/mesh.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>

namespace trivium {

namespace {

struct Pattern {
    std::vector<std::string> names; ///< "*" at most once
    std::string combine = "sum";
};

struct ParsedRule {
    std::vector<Pattern> operands, results;
    std::vector<std::string> replicated, indexed;
};

std::vector<std::string> split(std::string_view text, char separator)
{
    std::vector<std::string> parts;
    std::string part;
    std::istringstream in{std::string(text)};
    while (std::getline(in, part, separator))
        parts.push_back(part);
    return parts;
}

std::vector<std::string> words(std::string_view text)
{
    std::vector<std::string> out;
    std::string word;
    std::istringstream in{std::string(text)};
    while (in >> word)
        out.push_back(word);
    return out;
}

Pattern parse_pattern(const std::string& text)
{
    Pattern pattern;
    for (std::string word : words(text)) {
        if (const auto colon = word.find(':'); colon != std::string::npos) {
            pattern.combine = word.substr(colon + 1);
            word.resize(colon);
        }
        if (word != ".")
            pattern.names.push_back(word);
    }
    return pattern;
}

[[noreturn]] void fail(const std::string& place, const std::string& problem, std::string_view rule)
{
    throw UserError({place, problem, str("its rule is '", rule, "'"), "give operands that fit the rule"});
}

/// Names are there, combiners are known, and what stands behind the bar stands before it, too.
void check_names(const ParsedRule& rule, std::string_view text, const std::string& place)
{
    std::set<std::string> names;
    for (const auto* patterns : {&rule.operands, &rule.results})
        for (const Pattern& pattern : *patterns) {
            names.insert(pattern.names.begin(), pattern.names.end());
            if (!is_combiner(pattern.combine))
                fail(place, str("there is no combiner '", pattern.combine, "'; there are sum and lse"), text);
        }
    if (names.count(""))
        fail(place, "a factor has no name", text);
    for (const auto* listed : {&rule.replicated, &rule.indexed})
        for (const std::string& name : *listed)
            if (!names.count(name))
                fail(place, str("'", name, "' stands behind the bar, and in no operand or result"), text);
}

ParsedRule parse(std::string_view text, const std::string& place)
{
    ParsedRule rule;
    const auto arrow = text.find("->");
    if (arrow == std::string_view::npos)
        fail(place, "the rule has no '->'", text);
    std::string_view right = text.substr(arrow + 2);
    if (const auto bar = right.find('|'); bar != std::string_view::npos) {
        for (std::string word : words(right.substr(bar + 1))) {
            const bool indexed = word.back() == '?';
            if (indexed)
                word.pop_back();
            (indexed ? rule.indexed : rule.replicated).push_back(word);
        }
        right = right.substr(0, bar);
    }
    for (const std::string& part : split(text.substr(0, arrow), ','))
        rule.operands.push_back(parse_pattern(part));
    for (const std::string& part : split(right, ','))
        rule.results.push_back(parse_pattern(part));
    check_names(rule, text, place);
    return rule;
}

/// A rule's text is parsed once a thread: graphs have thousands of ops and a few dozen rules.
const ParsedRule& parsed_once(std::string_view text, const std::string& place)
{
    thread_local std::unordered_map<std::string, ParsedRule> known;
    if (known.size() > 10'000) // rules of foreign files
        known.clear();
    const auto found = known.find(std::string(text));
    return found != known.end() ? found->second
                                : known.emplace(std::string(text), parse(text, place)).first->second;
}

class Matcher {
public:
    Matcher(std::string_view text, const std::string& place) : text_(text), place_(place) {}

    FactorList match(const Pattern& pattern, const Shape& shape, std::size_t operand)
    {
        const auto star_words = std::count(pattern.names.begin(), pattern.names.end(), "*");
        if (star_words > 1)
            fail(place_, str("operand ", operand, " has more than one '*'"), text_);
        const std::size_t named = pattern.names.size();
        const bool has_star = star_words == 1;
        const std::size_t fixed = named - (has_star ? 1 : 0);
        if (has_star ? shape.size() < fixed : shape.size() != fixed)
            fail(place_,
                 str("operand ", operand, " has ", shape.size(), " dimensions, the rule wants ", fixed,
                     has_star ? " or more" : ""),
                 text_);
        const std::size_t stars = shape.size() - fixed;
        if (has_star && star_known_ && stars != star_count_)
            fail(place_,
                 str("operand ", operand, " has ", stars, " free dimensions where another has ", star_count_),
                 text_);
        if (has_star) {
            star_known_ = true;
            star_count_ = stars;
        }
        FactorList dims = expand(pattern);
        for (std::size_t i = 0; i < dims.size(); ++i) {
            Factor& factor = rule.factors[static_cast<std::size_t>(dims[i])];
            if (factor.size == 0)
                factor.size = shape[i];
            else if (factor.size != shape[i])
                fail(place_,
                     str("dimension ", i, " of operand ", operand, " is ", shape[i], ", but '", factor.name,
                         "' is ", factor.size),
                     text_);
        }
        return dims;
    }

    FactorList expand(const Pattern& pattern)
    {
        FactorList dims;
        for (const std::string& name : pattern.names) {
            if (name != "*") {
                dims.push_back(factor(name));
                continue;
            }
            for (std::size_t i = 0; i < star_count_; ++i)
                dims.push_back(factor(str("*", i)));
        }
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
                dims.begin() + static_cast<std::ptrdiff_t>(i))
                fail(place_,
                     str("'", rule.factors[static_cast<std::size_t>(dims[i])].name,
                         "' stands twice in one operand or result"),
                     text_);
        return dims;
    }

    /// Gives sizes to factors that no operand has.
    void take_sizes(const FactorSizes& sizes)
    {
        for (const auto& [name, size] : sizes)
            if (const auto at = index_.find(name);
                at != index_.end() && rule.factors[static_cast<std::size_t>(at->second)].size == 0) {
                if (size < 0 || size > max_elements)
                    fail(place_, str("the size of '", name, "' is ", size, ", must be from 1 to 2^48"),
                         text_);
                rule.factors[static_cast<std::size_t>(at->second)].size = size;
            }
    }

    FactorRule rule;

private:
    int factor(const std::string& name)
    {
        const auto [at, added] = index_.try_emplace(name, static_cast<int>(rule.factors.size()));
        if (added)
            rule.factors.push_back({name, FactorKind::parallel, 0});
        return at->second;
    }

    std::unordered_map<std::string, int> index_; ///< of a factor: buckets have thousands

    std::string_view text_;
    const std::string& place_;
    bool star_known_ = false;
    std::size_t star_count_ = 0;
};

} // namespace

Shape FactorRule::shape_of(const FactorList& dims) const
{
    Shape shape;
    for (const int f : dims)
        shape.push_back(factors[static_cast<std::size_t>(f)].size);
    return shape;
}

int FactorRule::find(std::string_view name) const
{
    for (std::size_t i = 0; i < factors.size(); ++i)
        if (factors[i].name == name)
            return static_cast<int>(i);
    return -1;
}

FactorRule make_rule(std::string_view text, const std::vector<Shape>& operands, const FactorSizes& sizes,
                     const std::string& place, bool variadic)
{
    ParsedRule parsed = parsed_once(text, place);
    if (variadic) {
        while (parsed.operands.size() < operands.size())
            parsed.operands.push_back(parsed.operands.back());
        if (operands.size() + 1 == parsed.operands.size())
            parsed.operands.pop_back(); // none at all
    }
    if (parsed.operands.size() != operands.size())
        fail(place, str("has ", operands.size(), " operands, the rule wants ", parsed.operands.size()), text);
    Matcher matcher(text, place);
    FactorRule& rule = matcher.rule;
    for (std::size_t i = 0; i < operands.size(); ++i)
        rule.operands.push_back(matcher.match(parsed.operands[i], operands[i], i));
    for (const Pattern& pattern : parsed.results) {
        rule.results.push_back(matcher.expand(pattern));
        rule.combine.push_back(pattern.combine);
    }
    matcher.take_sizes(sizes);
    std::vector<bool> in_results(rule.factors.size(), false);
    for (const FactorList& dims : rule.results)
        for (const int f : dims)
            in_results[static_cast<std::size_t>(f)] = true;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        Factor& factor = rule.factors[f];
        if (factor.size <= 0)
            fail(place, str("nothing gives the size of '", factor.name, "'"), text);
        if (!in_results[f])
            factor.kind = FactorKind::reduced;
        const auto listed = [&](const std::vector<std::string>& names) {
            const bool star = factor.name[0] == '*';
            return std::find(names.begin(), names.end(), star ? "*" : factor.name) != names.end();
        };
        if (listed(parsed.indexed))
            factor.kind = FactorKind::indexed;
        if (listed(parsed.replicated))
            factor.kind = FactorKind::replicated;
    }
    return rule;
}

std::string joined_rule(const FactorRule& first, const FactorRule& second, std::size_t through, bool keep)
{
    // The second's factors by the names that the first has for them.
    std::vector<std::string> names;
    for (const Factor& factor : second.factors) {
        names.push_back(factor.name);
        while (first.find(names.back()) >= 0)
            names.back() += "'";
    }
    const auto name_in_first = [&](int f) { return first.factors[static_cast<std::size_t>(f)].name; };
    const auto name_in_second = [&](int f) { return names[static_cast<std::size_t>(f)]; };
    for (std::size_t d = 0; d < first.results[0].size(); ++d)
        names[static_cast<std::size_t>(second.operands[through][d])] = name_in_first(first.results[0][d]);
    std::string text;
    const auto append = [&](const FactorList& dims, const auto& name) {
        if (!text.empty() && !text.ends_with("-> "))
            text += ", ";
        for (std::size_t d = 0; d < dims.size(); ++d)
            text += (d ? " " : "") + name(dims[d]);
        if (dims.empty())
            text += ".";
    };
    for (const FactorList& dims : first.operands)
        append(dims, name_in_first);
    for (std::size_t i = 0; i < second.operands.size(); ++i)
        if (i != through)
            append(second.operands[i], name_in_second);
    text += " -> ";
    for (const FactorList& dims : second.results)
        append(dims, name_in_second);
    if (keep)
        append(first.results[0], name_in_first);
    return text;
}

std::string product_gradient_rule(std::string_view text, int which)
{
    const auto arrow = text.find("->"), comma = text.find(',');
    TRV_CHECK(arrow != std::string_view::npos && comma < arrow, "not the rule of a product: ", text);
    const auto trim = [](std::string_view part) {
        while (!part.empty() && part.front() == ' ')
            part.remove_prefix(1);
        while (!part.empty() && part.back() == ' ')
            part.remove_suffix(1);
        return part;
    };
    const auto a = trim(text.substr(0, comma)), b = trim(text.substr(comma + 1, arrow - comma - 1)),
               c = trim(text.substr(arrow + 2));
    return which == 0 ? str(c, ", ", b, " -> ", a) : str(a, ", ", c, " -> ", b);
}

} // namespace trivium
