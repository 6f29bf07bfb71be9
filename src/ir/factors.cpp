#include "ir/factors.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>

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
    std::vector<std::string> out;
    std::string word;
    std::istringstream in{std::string(text)};
    while (in >> word)
        out.push_back(word);
    return out;
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
        for (std::size_t d = 0; d < tensor.dims.size(); ++d)
            text += (d ? " " : "") + tensor.dims[d];
        text += tensor.dims.empty() ? "." : "";
        if (tensor.combine != Combine::sum)
            text += str(":", name_of(tensor.combine));
    }
    return text;
}

/// "*0", "*1", …: the factors of free dimensions.
const std::string& star_name(std::size_t i)
{
    static const std::vector<std::string> known = [] {
        std::vector<std::string> all;
        for (int n = 0; n < 16; ++n)
            all.push_back(str("*", n));
        return all;
    }();
    static thread_local std::string other;
    return i < known.size() ? known[i] : other = str("*", i);
}

constexpr i64 unknown = -1; ///< the size of a factor that no operand has shown yet

/// This runs for each op after each pass, so texts are made only for errors.
class Matcher {
public:
    Matcher(const Rule& of, const std::function<std::string()>& place) : of_(of), place_(place) {}

    FactorList match(const Rule::Tensor& pattern, const Shape& shape, std::size_t operand)
    {
        const auto star_words = std::count(pattern.dims.begin(), pattern.dims.end(), "*");
        if (star_words > 1)
            refuse(str("operand ", operand, " has more than one '*'"));
        const std::size_t named = pattern.dims.size();
        const bool has_star = star_words == 1;
        const std::size_t fixed = named - (has_star ? 1 : 0);
        if (has_star ? shape.size() < fixed : shape.size() != fixed)
            refuse(str("operand ", operand, " has ", shape.size(), " dimensions, the rule requires ", fixed,
                       has_star ? " or more" : ""));
        const std::size_t stars = shape.size() - fixed;
        if (has_star && star_known_ && stars != star_count_)
            refuse(str("operand ", operand, " has ", stars, " free dimensions, but another operand has ",
                       star_count_));
        if (has_star) {
            star_known_ = true;
            star_count_ = stars;
        }
        FactorList dims = expand(pattern);
        for (std::size_t i = 0; i < dims.size(); ++i) {
            Factor& factor = rule.factors[static_cast<std::size_t>(dims[i])];
            if (factor.size == unknown)
                factor.size = shape[i];
            else if (factor.size != shape[i])
                refuse(str("dimension ", i, " of operand ", operand, " is ", shape[i], ", but '", factor.name,
                           "' is ", factor.size));
        }
        return dims;
    }

    FactorList expand(const Rule::Tensor& pattern)
    {
        FactorList dims;
        dims.reserve(pattern.dims.size() + star_count_);
        for (const std::string& name : pattern.dims) {
            if (name != "*") {
                dims.push_back(factor(name));
                continue;
            }
            for (std::size_t i = 0; i < star_count_; ++i)
                dims.push_back(factor(star_name(i)));
        }
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
                dims.begin() + static_cast<std::ptrdiff_t>(i))
                refuse(str("'", rule.factors[static_cast<std::size_t>(dims[i])].name,
                           "' appears twice in one operand or result"));
        return dims;
    }

    /// Sets the sizes of factors that no operand has.
    void take_sizes(const FactorSizes& sizes)
    {
        for (const auto& [name, size] : sizes)
            if (const int at = find(name);
                at >= 0 && rule.factors[static_cast<std::size_t>(at)].size == unknown) {
                if (size < 0 || size > max_elements)
                    refuse(str("the size of '", name, "' is ", size, ", must be from 0 to 2^48"));
                rule.factors[static_cast<std::size_t>(at)].size = size;
            }
    }

    FactorRule rule;

    [[noreturn]] void refuse(const std::string& problem) const { fail(place_(), problem, to_text(of_)); }

private:
    static constexpr std::size_t few = 16; ///< factors among which a search is faster than a table

    int find(const std::string& name) const
    {
        if (rule.factors.size() <= few)
            return rule.find(name);
        const auto at = index_.find(name);
        return at != index_.end() ? at->second : -1;
    }

    int factor(const std::string& name)
    {
        if (const int known = find(name); known >= 0)
            return known;
        rule.factors.push_back({name, FactorKind::parallel, unknown});
        const int added = static_cast<int>(rule.factors.size()) - 1;
        if (rule.factors.size() == few + 1)
            for (int f = 0; f < added; ++f)
                index_[rule.factors[static_cast<std::size_t>(f)].name] = f;
        if (rule.factors.size() > few)
            index_[name] = added;
        return added;
    }

    std::unordered_map<std::string, int> index_; ///< of a factor, once there are many: buckets have thousands
    const Rule& of_;
    const std::function<std::string()>& place_;
    bool star_known_ = false;
    std::size_t star_count_ = 0;
};

} // namespace

Rule::Rule(std::string_view text, const std::string& place) : Rule(parse(text, place)) {}

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

std::vector<int> FactorRule::parts_of(int dim) const
{
    const Factor& factor = (*this)[dim];
    if (factor.window)
        return {factor.window->of};
    return factor.parts.empty() ? std::vector<int>{dim} : factor.parts;
}

Stretch window_of(const Window& window, const Stretch& part, i64 extent)
{
    if (part.size == 0 || extent == 0)
        return {0, 0};
    const i64 one = part.begin * window.stride, other = (part.begin + part.size - 1) * window.stride;
    const i64 first = std::max<i64>(std::min(one, other) - window.low, 0),
              last = std::max(one, other) - window.low + window.reach;
    if (last < 0)
        return {0, 0};
    const i64 begin = ceil_div(first, window.base), end = std::min(last / window.base + 1, extent);
    return begin < end ? Stretch{begin, end - begin} : Stretch{0, 0};
}

FactorRule make_rule(const Rule& of, const std::vector<const Shape*>& operands, const FactorSizes& sizes,
                     const std::function<std::string()>& place, bool variadic)
{
    Matcher matcher(of, place);
    FactorRule& rule = matcher.rule;
    const std::size_t required = of->operands.size();
    const bool fits =
        operands.size() == required || (variadic && required > 0 && operands.size() + 1 >= required);
    if (!fits)
        matcher.refuse(str("has ", operands.size(), " operands, the rule requires ", required));
    rule.operands.reserve(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i)
        rule.operands.push_back(matcher.match(of->operands[std::min(i, required - 1)], *operands[i], i));
    rule.results.reserve(of->results.size());
    rule.combine.reserve(of->results.size());
    for (const Rule::Tensor& pattern : of->results) {
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
        if (factor.size == unknown)
            matcher.refuse(str("no operand or attribute determines the size of '", factor.name, "'"));
        if (!in_results[f])
            factor.kind = FactorKind::reduced;
        const auto listed = [&](const std::vector<std::string>& names) {
            const std::string_view name = factor.name[0] == '*' ? "*" : std::string_view(factor.name);
            return std::find(names.begin(), names.end(), name) != names.end();
        };
        if (listed(of->indexed))
            factor.kind = FactorKind::indexed;
        if (listed(of->replicated)) {
            factor.kind = FactorKind::replicated;
            factor.blocked = true;
        }
    }
    return rule;
}

FactorRule make_rule(const Rule& of, const std::vector<Shape>& operands, const FactorSizes& sizes,
                     const std::string& place, bool variadic)
{
    std::vector<const Shape*> shapes;
    for (const Shape& shape : operands)
        shapes.push_back(&shape);
    return make_rule(
        of, shapes, sizes, [&] { return place; }, variadic);
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
