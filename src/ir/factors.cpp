#include "ir/factors.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/limits.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

namespace trivium {

namespace {

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
    using Words = std::istream_iterator<std::string>;
    std::istringstream in{std::string(text)};
    return std::vector<std::string>(Words(in), Words());
}

[[noreturn]] void fail(const std::string& place, const std::string& problem, std::string_view rule)
{
    throw UserError({place, problem, str("its rule is '", rule, "'"), "use operands that fit the rule"});
}

Rule::Tensor parse_tensor(const std::string& text, const std::string& place, std::string_view rule)
{
    Rule::Tensor tensor;
    for (std::string word : words(text)) {
        if (const auto colon = word.find(':'); colon != std::string::npos) {
            const std::string name = word.substr(colon + 1);
            const auto combine = combine_named(name);
            if (!combine)
                fail(place,
                     str("there is no combiner '", name, "'; there are sum, lse, max, min and product"),
                     rule);
            tensor.combine = *combine;
            word.resize(colon);
        }
        if (word != ".")
            tensor.dims.push_back(word);
    }
    return tensor;
}

/// Names are not empty, and those after the bar occur in an operand or result.
void check_names(const Rule::Parts& rule, std::string_view text, const std::string& place)
{
    std::set<std::string> names;
    for (const auto* tensors : {&rule.operands, &rule.results})
        for (const Rule::Tensor& tensor : *tensors)
            names.insert(tensor.dims.begin(), tensor.dims.end());
    if (names.count(""))
        fail(place, "a factor has no name", text);
    for (const std::string& name : names)
        if (names.count("*") && name.starts_with('*') && name != "*" &&
            name.find_first_not_of("0123456789", 1) == std::string::npos)
            fail(place, str("'", name, "' could be a dimension of '*', which the rule also has"), text);
    for (const auto* listed : {&rule.replicated, &rule.indexed})
        for (const std::string& name : *listed)
            if (!names.count(name))
                fail(place, str("'", name, "' is listed after the bar, but occurs in no operand or result"),
                     text);
}

Rule::Parts parse(std::string_view text, const std::string& place)
{
    Rule::Parts rule;
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
        rule.operands.push_back(parse_tensor(part, place, text));
    for (const std::string& part : split(right, ','))
        rule.results.push_back(parse_tensor(part, place, text));
    check_names(rule, text, place);
    return rule;
}

std::string print_tensors(const std::vector<Rule::Tensor>& tensors)
{
    std::string text;
    for (const Rule::Tensor& tensor : tensors) {
        text += text.empty() ? "" : ", ";
        text += joined_words(tensor.dims, " ");
        text += tensor.dims.empty() ? "." : "";
        if (tensor.combine != Combine::sum)
            text += str(":", name_of(tensor.combine));
    }
    return text;
}

constexpr i64 unknown = -1; ///< the size of a factor that no operand has shown yet

/// Applies a rule to shapes. This runs for each op after each pass, so texts are made only for errors.
class Matcher {
public:
    /// `whole`: for messages.
    Matcher(const Rule::Form& form, const Rule& whole, const std::function<std::string()>& place)
        : form_(form), whole_(whole), place_(place)
    {
    }

    FactorRule match(const std::vector<const Shape*>& operands, const FactorSizes& sizes)
    {
        find_stars(operands);
        name_factors();
        rule_.operands.reserve(operands.size());
        for (std::size_t i = 0; i < operands.size(); ++i) {
            rule_.operands.push_back(expand(pattern(i)));
            take_shape(rule_.operands[i], *operands[i], i);
        }
        rule_.results.reserve(form_.results.size());
        rule_.combine.reserve(form_.results.size());
        for (std::size_t r = 0; r < form_.results.size(); ++r) {
            rule_.results.push_back(expand(form_.result_dims[r]));
            rule_.combine.push_back(form_.results[r].combine);
        }
        take_sizes(sizes);
        for (const Factor& factor : rule_.factors)
            if (factor.size == unknown)
                refuse(str("no operand or attribute determines the size of '", factor.name, "'"));
        return std::move(rule_);
    }

    [[noreturn]] void refuse(const std::string& problem) const { fail(place_(), problem, to_text(whole_)); }

private:
    const Rule::Form::Dims& pattern(std::size_t operand) const
    {
        return form_.operand_dims[std::min(operand, form_.operand_dims.size() - 1)];
    }

    /// How many dimensions `*` stands for.
    void find_stars(const std::vector<const Shape*>& operands)
    {
        bool known = false;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const Rule::Form::Dims& dims = pattern(i);
            if (dims.stars > 1)
                refuse(str("operand ", i, " has more than one '*'"));
            const bool has_star = dims.stars == 1;
            const std::size_t fixed = dims.names.size() - (has_star ? 1 : 0), shape = operands[i]->size();
            if (has_star ? shape < fixed : shape != fixed)
                refuse(str("operand ", i, " has ", shape, " dimensions, the rule requires ", fixed,
                           has_star ? " or more" : ""));
            if (!has_star)
                continue;
            const auto stars = static_cast<int>(shape - fixed);
            if (known && stars != stars_)
                refuse(
                    str("operand ", i, " has ", stars, " free dimensions, but another operand has ", stars_));
            known = true;
            stars_ = stars;
        }
    }

    void name_factors()
    {
        rule_.factors.reserve(form_.names.size() + static_cast<std::size_t>(stars_));
        const auto add = [&](std::string name, FactorKind kind) {
            rule_.factors.push_back({std::move(name), kind, unknown, kind == FactorKind::replicated});
        };
        const auto add_stars = [&] {
            for (int i = 0; i < stars_; ++i)
                add("*" + std::to_string(i), form_.star_kind);
        };
        for (std::size_t n = 0; n < form_.names.size(); ++n) {
            if (static_cast<int>(n) == form_.before_star)
                add_stars();
            add(form_.names[n], form_.kinds[n]);
        }
        if (form_.before_star == static_cast<int>(form_.names.size()))
            add_stars();
    }

    /// The factors of a tensor's dimensions.
    FactorList expand(const Rule::Form::Dims& dims) const
    {
        FactorList factors;
        factors.reserve(dims.names.size() + static_cast<std::size_t>(stars_));
        for (const int name : dims.names)
            for (int i = 0; i < (name == Rule::Form::star ? stars_ : 1); ++i)
                factors.push_back(index_of(name) + i);
        const bool named = dims.twice != Rule::Form::star;
        if (named || (dims.stars > 1 && stars_ > 0))
            refuse(str("'", named ? form_.names[static_cast<std::size_t>(dims.twice)] : "*0",
                       "' appears twice in one operand or result"));
        return factors;
    }

    void take_shape(const FactorList& dims, const Shape& shape, std::size_t operand)
    {
        for (std::size_t i = 0; i < dims.size(); ++i) {
            Factor& factor = rule_.factors[static_cast<std::size_t>(dims[i])];
            if (factor.size == unknown)
                factor.size = shape[i];
            else if (factor.size != shape[i])
                refuse(str("dimension ", i, " of operand ", operand, " is ", shape[i], ", but '", factor.name,
                           "' is ", factor.size));
        }
    }

    /// Sets the sizes of factors that no operand has.
    void take_sizes(const FactorSizes& sizes)
    {
        for (const auto& [name, size] : sizes)
            if (const int at = find(name);
                at >= 0 && rule_.factors[static_cast<std::size_t>(at)].size == unknown) {
                if (size < 0 || size > max_elements)
                    refuse(str("the size of '", name, "' is ", size, ", must be from 0 to 2^48"));
                rule_.factors[static_cast<std::size_t>(at)].size = size;
            }
    }

    int find(const std::string& name) const
    {
        if (const auto at = form_.index.find(name); at != form_.index.end())
            return index_of(at->second);
        return name.starts_with('*') ? rule_.find(name) : -1;
    }

    /// The factor of a name, or the first one of `*`.
    int index_of(int name) const
    {
        if (name == Rule::Form::star)
            return form_.before_star;
        return name < form_.before_star ? name : name + stars_;
    }

    const Rule::Form& form_;
    const Rule& whole_;
    const std::function<std::string()>& place_;
    FactorRule rule_;
    int stars_ = 0; ///< dimensions that `*` stands for
};

} // namespace

Rule::Rule(std::string_view text, const std::string& place) : Rule(parse(text, place)) {}

Rule::Form::Form(Parts parts) : Parts(std::move(parts))
{
    bool star_known = false;
    const auto resolve = [&](const Tensor& tensor) {
        Dims dims;
        dims.names.reserve(tensor.dims.size());
        for (const std::string& name : tensor.dims) {
            int known = star;
            if (name == "*") {
                ++dims.stars;
                if (!std::exchange(star_known, true))
                    before_star = static_cast<int>(names.size());
            } else {
                const auto [at, added] = index.try_emplace(name, static_cast<int>(names.size()));
                known = at->second;
                if (added)
                    names.push_back(name);
            }
            if (dims.twice == star && known != star &&
                std::find(dims.names.begin(), dims.names.end(), known) != dims.names.end())
                dims.twice = known;
            dims.names.push_back(known);
        }
        return dims;
    };
    for (const Tensor& tensor : operands)
        operand_dims.push_back(resolve(tensor));
    for (const Tensor& tensor : results)
        result_dims.push_back(resolve(tensor));
    // A listed `*` means every factor whose name begins so.
    const auto listed = [](const std::vector<std::string>& list, std::string_view name) {
        return std::find(list.begin(), list.end(), name.starts_with('*') ? "*" : name) != list.end();
    };
    std::vector<bool> made(names.size(), false);
    bool star_made = false;
    for (const Dims& dims : result_dims)
        for (const int name : dims.names)
            if (name == star)
                star_made = true;
            else
                made[static_cast<std::size_t>(name)] = true;
    const auto kind_of = [&](std::string_view name, bool in_results) {
        return listed(replicated, name) ? FactorKind::replicated
               : listed(indexed, name)  ? FactorKind::indexed
               : in_results             ? FactorKind::parallel
                                        : FactorKind::reduced;
    };
    for (std::size_t n = 0; n < names.size(); ++n)
        kinds.push_back(kind_of(names[n], made[n]));
    star_kind = kind_of("*", star_made);
}

std::string to_text(const Rule& rule)
{
    std::string text = print_tensors(rule->operands);
    text += text.empty() ? "->" : " ->";
    if (!rule->results.empty())
        text += " " + print_tensors(rule->results);
    if (!rule->replicated.empty() || !rule->indexed.empty())
        text += " |";
    for (const std::string& name : rule->replicated)
        text += " " + name;
    for (const std::string& name : rule->indexed)
        text += " " + name + "?";
    return text;
}

Shape FactorRule::shape_of(const FactorList& dims) const
{
    Shape shape;
    shape.reserve(dims.size());
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

std::span<const int> FactorRule::parts_of(const int& dim) const
{
    const Factor& factor = (*this)[dim];
    if (factor.window)
        return {&factor.window->of, 1};
    return factor.parts.empty() ? std::span(&dim, 1) : std::span(factor.parts);
}

IndexRange window_of(const Window& window, const IndexRange& part, i64 extent)
{
    if (part.size == 0 || extent == 0)
        return {0, 0};
    const i64 one = part.begin * window.stride, other = (part.begin + part.size - 1) * window.stride;
    const i64 first = std::max<i64>(std::min(one, other) - window.low, 0),
              last = std::max(one, other) - window.low + window.reach;
    if (last < 0)
        return {0, 0};
    const i64 begin = ceil_div(first, window.base), end = std::min(last / window.base + 1, extent);
    return begin < end ? IndexRange{begin, end - begin} : IndexRange{0, 0};
}

FactorRule make_rule(const Rule& of, const std::vector<const Shape*>& operands, const FactorSizes& sizes,
                     const std::function<std::string()>& place, bool variadic)
{
    const std::size_t required = of->operands.size();
    Matcher matcher(of.form(), of, place);
    if (operands.size() == required || (variadic && required > 0 && operands.size() > required))
        return matcher.match(operands, sizes);
    if (!variadic || operands.size() + 1 != required)
        matcher.refuse(str("has ", operands.size(), " operands, the rule requires ", required));
    Rule::Parts without_last = *of.operator->();
    without_last.operands.pop_back();
    return Matcher(Rule::Form(std::move(without_last)), of, place).match(operands, sizes);
}

Rule joined_rule(const FactorRule& first, const FactorRule& second, std::size_t through, bool keep)
{
    // Maps the second rule's factor names to those of the first.
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
    Rule::Parts joined;
    const auto append = [](std::vector<Rule::Tensor>& to, const FactorList& dims, const auto& name) {
        Rule::Tensor& tensor = to.emplace_back();
        for (const int f : dims)
            tensor.dims.push_back(name(f));
    };
    for (const FactorList& dims : first.operands)
        append(joined.operands, dims, name_in_first);
    for (std::size_t i = 0; i < second.operands.size(); ++i)
        if (i != through)
            append(joined.operands, second.operands[i], name_in_second);
    for (const FactorList& dims : second.results)
        append(joined.results, dims, name_in_second);
    if (keep)
        append(joined.results, first.results[0], name_in_first);
    return Rule(std::move(joined));
}

Rule product_gradient_rule(const Rule& product, int operand)
{
    TRV_CHECK(product->operands.size() == 2 && product->results.size() == 1 && (operand == 0 || operand == 1),
              "not the rule of a product: ", to_text(product));
    Rule::Parts gradient = *product.operator->();
    const auto at = static_cast<std::size_t>(operand);
    std::swap(gradient.operands[at], gradient.results[0]);
    return Rule(std::move(gradient));
}

} // namespace trivium
