#include "ir/attributes.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

namespace trivium {

namespace {

/// An attribute where it stands. `op` and `rule` are null for one of a first content.
struct Place {
    const Graph& graph;
    const Op* op;
    const FactorRule* rule;
    const std::function<std::string()>& where; ///< made only for a message
    const std::string& name;
    const Attr& value;

    [[noreturn]] void fail(const std::string& wanted, const std::string& remedy) const
    {
        const std::string text = std::visit([](const auto& v) { return str("'", v, "'"); }, value);
        throw UserError(
            {where(), str("its attribute '", name, "' is ", text, ", must be ", wanted), "", remedy});
    }
};

i64 whole(const Place& p, i64 from, i64 to)
{
    const i64* value = std::get_if<i64>(&p.value);
    if (!value || *value < from || *value > to)
        p.fail(str("a whole number from ", from, " to ", to),
               str("write ", p.name, "=", from, " or another such number"));
    return *value;
}

double real(const Place& p, bool (*holds)(double), const char* wanted)
{
    const double* value = std::get_if<double>(&p.value);
    if (!value || !std::isfinite(*value) || !holds(*value))
        p.fail(wanted, "write it with a point, like 1.0");
    return *value;
}

const std::string& text(const Place& p)
{
    const std::string* value = std::get_if<std::string>(&p.value);
    if (!value)
        p.fail("a text", "put it in quotes");
    return *value;
}

void one_of(const Place& p, std::initializer_list<std::string_view> words)
{
    if (std::find(words.begin(), words.end(), text(p)) != words.end())
        return;
    std::string all;
    for (const std::string_view word : words)
        all += str(all.empty() ? "\"" : ", \"", word, "\"");
    p.fail("one of " + all, "write one of these");
}

/// Whole numbers from 0 with single spaces between them, each below its limit: as many as `limits` has.
std::vector<i64> numbers(const Place& p, const std::vector<i64>& limits)
{
    const std::string& value = text(p);
    const auto fail = [&] {
        p.fail(str(limits.size(), " whole numbers, one for each operand, each within its tensor"),
               "write for example \"0 1 0\"");
    };
    std::vector<i64> found;
    const char *at = value.data(), *const end = at + value.size();
    for (; at != end; ++at) {
        i64 number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error != std::errc{} || found.size() >= limits.size() || number < 0 ||
            number >= limits[found.size()])
            fail();
        found.push_back(number);
        at = next;
        if (at == end)
            break;
        if (*at != ' ' || at + 1 == end)
            fail();
    }
    if (found.size() != limits.size())
        fail();
    return found;
}

/// The dimension of each operand along which the op gathers, scatters or takes a stretch: the others stay as
/// they are.
void dims(const Place& p)
{
    std::vector<i64> limits;
    for (const FactorList& operand : p.rule->operands)
        limits.push_back(static_cast<i64>(operand.size()));
    const std::vector<i64> changed = numbers(p, limits);
    for (std::size_t i = 0; i < changed.size(); ++i) {
        const Shape in = p.rule->shape_of(p.rule->operands[i]), out = p.rule->shape_of(p.rule->results[i]);
        bool same = in.size() == out.size();
        for (std::size_t d = 0; same && d < in.size(); ++d)
            same = static_cast<i64>(d) == changed[i] || in[d] == out[d];
        if (!same)
            p.fail(str("the one dimension that differs between operand ", i, " and its result"),
                   "write the dimension that the op changes");
    }
}

/// Where each operand goes in a vector.
void positions(const Place& p)
{
    std::vector<i64> at =
        numbers(p, std::vector<i64>(p.rule->operands.size(), p.rule->shape_of(p.rule->results[0])[0]));
    std::sort(at.begin(), at.end());
    if (std::adjacent_find(at.begin(), at.end()) != at.end())
        p.fail("another place for each operand", "use each place once");
}

void stretch(const Place& p)
{
    const i64 begin = whole(p, 0, max_elements);
    const Shape in = p.rule->shape_of(p.rule->operands[0]), out = p.rule->shape_of(p.rule->results[0]);
    i64 last = 0;
    for (std::size_t d = 0; d < std::min(in.size(), out.size()); ++d)
        last = in[d] != out[d] ? in[d] - out[d] : last;
    if (begin > last)
        p.fail(str("such that ", begin, " and the result's extent lie within the operand"),
               "take a stretch within the operand");
}

void axis(const Place& p)
{
    if (const std::string& name = text(p); name != "world" && p.graph.mesh.find(name) < 0)
        p.fail("an axis of the mesh, or \"world\"", "name an axis of the line `mesh`");
}

/// A place on the op's axis, another than the rank's own.
void peer(const Place& p)
{
    for (const auto& [name, value] : p.op->attrs)
        if (const std::string* along = std::get_if<std::string>(&value); along && name == "axis") {
            const i64 at = whole(p, 0, p.graph.mesh.ranks_along(*along) - 1);
            const int a = p.graph.mesh.find(*along);
            if (a >= 0 && !p.graph.at.empty() && p.graph.at[static_cast<std::size_t>(a)] == at)
                p.fail("another rank's place", "send to and receive from other ranks");
        }
}

/// The combiner of partial values. Operands stay as they are.
void combiner(const Place& p)
{
    one_of(p, {"sum", "lse"});
    if (p.rule && p.rule->operands != p.rule->results)
        throw UserError({p.where(), "its results are shaped otherwise than its operands", "",
                         "write a rule like \"x0 x1 -> x0 x1\""});
}

bool any(double) { return true; }
bool from_zero(double v) { return v >= 0; }
bool above_zero(double v) { return v > 0; }

struct Form {
    std::string_view name;
    std::function<void(const Place&)> check;
};

const Form* form_of(std::string_view name)
{
    static const Form forms[] = {
        {"rule", [](const Place& p) { text(p); }}, // make_rule reads it
        {"axis", axis},
        {"dim", dims},
        {"at", positions},
        {"offset", stretch},
        {"combine", combiner},
        {"to", peer},
        {"from", peer},
        {"channel", [](const Place& p) { whole(p, 0, max_channels - 1); }},
        {"dtype",
         [](const Place& p) {
             one_of(p, {"f64", "f32", "bf16", "i32"});
         }},
        {"fp8",
         [](const Place& p) {
             one_of(p, {"e4m3 e4m3", "e4m3 e5m2", "e5m2 e4m3", "e5m2 e5m2"});
         }},
        {"eps", [](const Place& p) { real(p, from_zero, "a real number from 0 on"); }},
        {"clip", [](const Place& p) { real(p, from_zero, "a real number from 0 on"); }},
        {"std", [](const Place& p) { real(p, from_zero, "a real number from 0 on"); }},
        {"scale", [](const Place& p) { real(p, any, "a real number"); }},
        {"value", [](const Place& p) { real(p, any, "a real number"); }},
        {"weight_decay", [](const Place& p) { real(p, any, "a real number"); }},
        {"theta", [](const Place& p) { real(p, above_zero, "a real number above 0"); }},
        {"factor", [](const Place& p) { real(p, above_zero, "a real number above 0"); }},
        {"low_freq_factor", [](const Place& p) { real(p, above_zero, "a real number above 0"); }},
        {"high_freq_factor", [](const Place& p) { real(p, above_zero, "a real number above 0"); }},
        {"original_seq", [](const Place& p) { whole(p, 1, max_elements); }},
    };
    const auto found =
        std::find_if(std::begin(forms), std::end(forms), [&](const Form& form) { return form.name == name; });
    return found == std::end(forms) ? nullptr : &*found;
}

/// One entry of a row's list.
struct Named {
    std::string_view name;
    bool optional = false;
};

/// The entries of a row's list: "axis rule:1 eps?".
std::vector<Named> names_in(std::string_view list)
{
    std::vector<Named> names;
    while (!list.empty()) {
        const std::string_view word = list.substr(0, list.find(' '));
        names.push_back({word.substr(0, word.find_first_of(":?")), word.ends_with('?')});
        list.remove_prefix(std::min(list.size(), word.size() + 1));
    }
    return names;
}

/// Checks `attrs` against a row's list. `other` says the form of a name that the list lacks, or null.
void check(const Graph& graph, const Op* op, const FactorRule* rule, const Attrs& attrs,
           std::string_view list, const std::function<std::string()>& where,
           const std::function<std::optional<i64>(std::string_view)>& least)
{
    const std::vector<Named> names = names_in(list);
    const auto listed = [&](std::string_view name) {
        return std::any_of(names.begin(), names.end(), [&](const Named& n) { return n.name == name; });
    };
    std::vector<std::string_view> seen;
    for (const auto& [name, value] : attrs) {
        seen.push_back(name);
        const Place place{graph, op, rule, where, name, value};
        if (listed(name)) {
            const Form* form = form_of(name);
            TRV_CHECK(form, "the attribute '", name, "' has no form");
            form->check(place);
        } else if (const auto from = least ? least(name) : std::nullopt) {
            whole(place, *from, max_elements);
        } else {
            throw UserError({where(), str("does not take an attribute '", name, "'"),
                             names.empty() ? "" : str("it takes ", list), "remove it, or see docs/ops.md"});
        }
    }
    std::sort(seen.begin(), seen.end());
    if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end())
        throw UserError({where(), str("has the attribute '", *twice, "' twice"), "", "keep one"});
    for (const Named& n : names)
        if (!n.optional && !std::binary_search(seen.begin(), seen.end(), n.name))
            throw UserError({where(), str("has no attribute '", n.name, "'"), str("it takes ", list),
                             str("write {", n.name, "=…} behind its operands")});
}

} // namespace

void check_attributes(const Graph& graph, const Op& op, const FactorRule& rule)
{
    // Factors that no operand has take their size from an attribute, indexed ones may begin at an offset.
    std::vector<bool> in_operands(rule.factors.size(), false);
    for (const FactorList& dims : rule.operands)
        for (const int f : dims)
            in_operands[static_cast<std::size_t>(f)] = true;
    std::vector<std::pair<std::string, i64>> sizes;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (!in_operands[f])
            sizes.emplace_back(rule.factors[f].name, 1);
        if (rule.factors[f].kind == FactorKind::indexed)
            sizes.emplace_back(rule.factors[f].name + "_offset", 0);
    }
    std::sort(sizes.begin(), sizes.end());
    check(
        graph, &op, &rule, op.attrs, info(op).attrs, [&] { return place_of(graph, op); },
        [&](std::string_view name) -> std::optional<i64> {
            const auto at =
                std::lower_bound(sizes.begin(), sizes.end(), name,
                                 [](const auto& size, std::string_view n) { return size.first < n; });
            return at != sizes.end() && at->first == name ? std::optional(at->second) : std::nullopt;
        });
}

void check_init(const Graph& graph, const Value& value)
{
    static constexpr std::pair<std::string_view, std::string_view> kinds[] = {
        {"", ""},
        {"normal", "std"},
        {"fill", "value"},
        {"rope_table", "theta factor low_freq_factor high_freq_factor original_seq"}};
    const std::function<std::string()> where = [&] {
        return str(source_place(graph, value.line), "%", value.name);
    };
    const auto kind = std::find_if(std::begin(kinds), std::end(kinds),
                                   [&](const auto& k) { return k.first == value.init.kind; });
    if (kind == std::end(kinds))
        throw UserError({where(), str("there is no first content '", value.init.kind, "'"), "",
                         "use normal(std=…), fill(value=…) or rope_table(…)"});
    check(graph, nullptr, nullptr, value.init.attrs, kind->second, where, nullptr);
}

} // namespace trivium
