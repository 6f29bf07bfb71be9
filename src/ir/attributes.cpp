#include "ir/attributes.hpp"

#include "base/activation.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/words.hpp"
#include "ir/exchange.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/attribute_text.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

static_assert(static_cast<std::size_t>(Attr::dims) + std::size(list_names) <= 128, "AttrSet has 128 bits");
static_assert(std::ranges::all_of(
                  list_names, [](Attr attr) { return list_name(attr).attr == attr; }, &ListName::attr),
              "list_names has another order than Attr");

/// Those that the row requires or allows.
std::vector<std::string> attribute_names(const OpInfo& row)
{
    std::vector<std::string> names;
    const auto add = [&](Attr attr, const char* name) {
        if (row.takes(attr))
            names.emplace_back(name);
    };
    for (const ListName& list : list_names)
        add(list.attr, list.name);
    each_attribute([&](Attr attr, const char* name, auto) {
        if (attr != Attr::sizes && attr != Attr::offsets)
            add(attr, name);
    });
    return names;
}

/// The checks of one op's attributes. Strings are built only for messages, because a large model has many
/// ops.
class AttributeCheck {
public:
    AttributeCheck(const Graph& graph, const Op& op, const FactorRule& rule)
        : g_(graph), op_(op), a_(op.attrs), rule_(rule)
    {
    }

    void run() const
    {
        check_names();
        check_sizes();
        check_axis();
        if (info(op_).exchanges)
            check_exchange(g_, op_);
        if (a_.combine && !a_.dim && info(op_).communicates)
            check_shapes_stay();
        if (a_.direction)
            check_direction();
        if (a_.dim)
            check_dims();
        if (a_.at)
            check_places();
        if (info(op_).parts)
            check_parts();
        if (a_.tag)
            within("tag", *a_.tag, 0, max_tags - 1);
        if (a_.reader)
            within("reader", *a_.reader, 0, g_.stage_of_block.empty() ? 0 : g_.stage_of_block.back());
        for (const auto& [name, value] : {std::pair{"eps", a_.eps}, {"clip", a_.clip}})
            if (value && *value < 0)
                fail(name, print_real(*value), "a real number that is not negative", "make it positive");
        if (a_.rate && !(*a_.rate >= 0 && *a_.rate < 1))
            fail("rate", print_real(*a_.rate), "a real number from 0 to below 1", "0.1 is usual");
        if (const auto* stream = a_.lists.find(Attr::stream); stream && stream->size() != 2)
            fail("stream", print_numbers(*stream), "2 integers: a seed, and a number of the op",
                 "write, for example, \"0 1\"");
        if (const auto* order = a_.lists.find(Attr::order);
            order && (order->size() != 2 || order->at(0) < 1 || order->at(1) < order->at(0)))
            fail("order", print_numbers(*order), "2 integers: ranks, and at least as many tokens",
                 "remove it, or write, for example, \"4 128\"");
        if (a_.cap && *a_.cap <= 0)
            fail("cap", print_real(*a_.cap), "a real number above 0", "remove it, or make it positive");
        for (const Attr flag : {Attr::rounded, Attr::interleaved})
            if (const auto* numbers = a_.lists.find(flag))
                within(list_name(flag).name, numbers->at(0), 0, 1);
        if (a_.activation && !value_named<Activation>(*a_.activation))
            fail("activation", *a_.activation, "one of silu, gelu, gelu-tanh, relu2, clipped",
                 "write one of these");
        if (op_.kind == OpKind::rope || op_.kind == OpKind::rope_grad)
            check_turns();
        if (info(op_).scratch == ScratchKind::attention)
            check_keys();
    }

private:
    [[noreturn]] void fail(const std::string& name, const std::string& text, const std::string& expected,
                           const std::string& remedy) const
    {
        refuse_attribute(place_of(g_, op_), name, text, expected, remedy);
    }

    void within(const std::string& name, i64 value, i64 from, i64 to) const
    {
        if (value < from || value > to)
            fail(name, std::to_string(value), str("an integer from ", from, " to ", to),
                 str("write ", name, "=", from, " or another number in this range"));
    }

    /// All attributes that the row requires are present, and no others except optional ones.
    void check_names() const
    {
        const OpInfo& row = info(op_);
        const auto check = [&](Attr attr, const char* name, bool given) {
            if (given && !row.takes(attr))
                refuse_name(name);
            if (given)
                check_part(attr, name);
            if (!given && row.needs.has(attr))
                refuse_lack(name);
        };
        for (const ListName& list : list_names)
            check(list.attr, list.name, a_.lists.find(list.attr) != nullptr);
        each_attribute([&](Attr attr, const char* name, auto member) {
            using Member = std::decay_t<decltype(a_.*member)>;
            if constexpr (!std::is_same_v<Member, FactorSizes>) {
                const Member& value = a_.*member;
                check(attr, name, value.has_value());
                if constexpr (std::is_same_v<Member, std::optional<double>>)
                    if (value && !std::isfinite(*value) && !fills_with_any(attr))
                        fail(name, print_real(*value), "a real number", "write it with a point, like 1.0");
            }
        });
    }

    /// What a tensor or its padding is filled with: -inf is the identity of a maximum.
    bool fills_with_any(Attr attr) const
    {
        const AttrSet& needs = info(op_).needs;
        return attr == Attr::value && (needs.has(Attr::shape) || needs.has(Attr::low));
    }

    /// What places a rank's part means nothing in a graph of all ranks.
    void check_part(Attr attr, const char* name) const
    {
        if (info(op_).of_part.has(attr) && g_.at.empty())
            throw UserError({place_of(g_, op_), str("has the attribute '", name, "'"),
                             "it describes one rank's part, and the graph is that of all ranks",
                             str("remove '", name, "', or write a line `at`")});
    }

    [[noreturn]] void refuse_lack(const char* name) const
    {
        throw UserError({place_of(g_, op_), str("has no attribute '", name, "'"), "",
                         str("write {", name, "=…} after its operands")});
    }

    [[noreturn]] void refuse_name(const std::string& name) const
    {
        const std::vector<std::string> known = attribute_names(info(op_));
        throw UserError({place_of(g_, op_), str("does not take an attribute '", name, "'"), "",
                         did_you_mean(name, known, "remove it, or see docs/ops.md")});
    }

    /// Factors that no operand has take their size from an attribute; indexed ones may have an offset.
    void check_sizes() const
    {
        if (a_.sizes.empty() && a_.offsets.empty())
            return;
        std::vector<std::string_view> sized, indexed;
        std::vector<bool> in_operands(rule_.factors.size(), false);
        for (const FactorList& dims : rule_.operands)
            for (const int f : dims)
                in_operands[static_cast<std::size_t>(f)] = true;
        for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
            if (!in_operands[f])
                sized.push_back(rule_.factors[f].name);
            if (rule_.factors[f].kind == FactorKind::indexed)
                indexed.push_back(rule_.factors[f].name);
        }
        check_each(a_.sizes, sized, "", g_.at.empty() ? 1 : 0);
        check_each(a_.offsets, indexed, "_offset", 0);
    }

    void check_each(const FactorSizes& given, std::vector<std::string_view> known, const char* suffix,
                    i64 least) const
    {
        std::ranges::sort(known);
        std::vector<std::string_view> seen;
        for (const FactorSize& size : given) {
            if (!std::binary_search(known.begin(), known.end(), size.factor))
                refuse_name(size.factor + suffix);
            within(size.factor + suffix, size.size, least, max_elements);
            seen.push_back(size.factor);
        }
        std::ranges::sort(seen);
        if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end())
            throw UserError(
                {place_of(g_, op_), str("has the attribute '", *twice, suffix, "' twice"), "", "keep one"});
    }

    /// Whether it joins axes of the mesh, or parts of them, each once.
    bool joins_axes(std::string_view joint) const
    {
        bool once = true;
        std::vector<std::string_view> seen;
        each_name(joint, [&](std::string_view name) {
            const auto overlaps = [&](std::string_view other) { return g_.mesh.overlap(other, name); };
            once = once && g_.mesh.size_of(name) && std::ranges::none_of(seen, overlaps);
            seen.push_back(name);
        });
        return once;
    }

    void check_axis() const
    {
        if (!a_.axis || (g_.mesh.axes.empty() && info(op_).localize)) // the whole group is this rank
            return;
        const int axis = g_.mesh.find(*a_.axis);
        const bool message = a_.from || a_.to;
        if (message ? axis < 0 : *a_.axis != world_axis && !joins_axes(*a_.axis))
            fail("axis", *a_.axis,
                 message ? "an axis of the mesh" : "an axis of the mesh, several joined by '+', or \"world\"",
                 "name axes of the line `mesh`, each once");
        for (const bool sends : {false, true}) {
            const auto& peer = sends ? a_.to : a_.from;
            if (!peer)
                continue;
            within(sends ? "to" : "from", *peer, 0, g_.mesh.ranks_along(*a_.axis) - 1);
            if (!g_.at.empty() && g_.at[static_cast<std::size_t>(axis)] == *peer)
                fail(sends ? "to" : "from", std::to_string(*peer), "the coordinate of another rank",
                     "send to and receive from other ranks");
        }
    }

    void check_direction() const
    {
        constexpr std::string_view known[] = {"eq", "ne", "lt", "le", "gt", "ge"};
        if (std::find(std::begin(known), std::end(known), *a_.direction) == std::end(known))
            fail("direction", *a_.direction, "one of eq, ne, lt, le, gt, ge", "write one of these");
    }

    /// Of attention: the numbers of keys that a query may see.
    void check_keys() const
    {
        for (const Attr attr : {Attr::window, Attr::chunk})
            if (const auto* keys = a_.lists.find(attr); keys && (keys->size() != 1 || keys->front() < 1))
                fail(list_name(attr).name, print_numbers(*keys), "one integer above 0",
                     "remove it, or write the number of keys");
        if (const auto* begin = a_.lists.find(Attr::begin);
            begin && (begin->size() != 1 || begin->front() < 0 || begin->front() > max_elements))
            fail("begin", print_numbers(*begin), "the index of a key",
                 "remove it, or write, for example, \"0\"");
        if (const DType wide = accumulator_of(g_[op_.operands[0]].type.dtype); a_.dtype && *a_.dtype != wide)
            fail("dtype", std::string(name_of(*a_.dtype)), std::string(name_of(wide)), "remove it");
    }

    /// The table has an angle per pair, and the pairs fit into a head.
    void check_turns() const
    {
        const Shape x = rule_.shape_of(rule_.operands[0]), table = rule_.shape_of(rule_.operands[2]);
        if (table[2] != 2 || 2 * table[1] > x.back())
            throw UserError(
                {place_of(g_, op_), "its table does not fit",
                 str("a head has ", counted(x.back(), "element"), ", operand 2 is [positions, ", table[1],
                     ", ", table[2], "]"),
                 "use a table [positions, pairs, 2] with at most half as many pairs as elements"});
    }

    void check_shapes_stay() const
    {
        if (rule_.operands != rule_.results)
            throw UserError({place_of(g_, op_), "the shapes of its results differ from those of its operands",
                             "", "write a rule like \"x0 x1 -> x0 x1\""});
    }

    /// One number per operand, from 0 and below its limit.
    void one_for_each(const char* name, const std::vector<i64>& numbers, const std::vector<i64>& limits) const
    {
        bool fits = numbers.size() == limits.size();
        for (std::size_t i = 0; fits && i < numbers.size(); ++i)
            fits = numbers[i] >= 0 && numbers[i] < limits[i];
        if (fits)
            return;
        fail(name, print_numbers(numbers),
             str(counted(limits.size(), "integer"), ", one per operand, each within its tensor"),
             "write, for example, \"0 1 0\"");
    }

    /// The dimension of each operand along which the op gathers, scatters or slices; the other dimensions do
    /// not change.
    void check_dims() const
    {
        std::vector<i64> limits;
        for (const FactorList& operand : rule_.operands)
            limits.push_back(static_cast<i64>(operand.size()));
        one_for_each("dim", *a_.dim, limits);
        for (std::size_t i = 0; i < limits.size(); ++i) {
            const Shape in = rule_.shape_of(rule_.operands[i]), out = rule_.shape_of(rule_.results[i]);
            bool same = in.size() == out.size();
            for (std::size_t d = 0; same && d < in.size(); ++d)
                same = static_cast<i64>(d) == (*a_.dim)[i] || in[d] == out[d];
            if (!same)
                fail("dim", std::to_string((*a_.dim)[i]),
                     str("the only dimension that differs between operand ", i, " and its result"),
                     "write the dimension that the op changes");
        }
    }

    /// Tensors that differ along one dimension, whose extents add up.
    void check_parts() const
    {
        const bool splits = rule_.operands.size() == 1;
        const auto &parts = splits ? rule_.results : rule_.operands,
                   &wholes = splits ? rule_.operands : rule_.results;
        const auto refuse = [&](const char* problem) {
            throw UserError({place_of(g_, op_), problem, str("its rule is '", to_text(*a_.rule), "'"),
                             "write a rule like \"x0 x1 -> x0 y0, x0 y1 | x1 y0 y1\", or its inverse"});
        };
        if (wholes.size() != 1)
            refuse("has several operands and several results");
        const FactorList& whole = wholes[0];
        i64 sum = 0;
        std::optional<std::size_t> dim;
        for (const FactorList& part : parts) {
            if (part.size() != whole.size())
                refuse("has parts with another number of dimensions");
            for (std::size_t d = 0; d < whole.size(); ++d)
                if (part[d] != whole[d]) {
                    if (dim.value_or(d) != d)
                        refuse("has parts that differ in several dimensions");
                    dim = d;
                    sum += rule_.factors[static_cast<std::size_t>(part[d])].size;
                    for (const int f : {part[d], whole[d]})
                        if (rule_.factors[static_cast<std::size_t>(f)].kind != FactorKind::replicated)
                            refuse("has a divided dimension that is not replicated");
                }
        }
        if (!dim || sum != rule_.factors[static_cast<std::size_t>(whole[*dim])].size)
            refuse("has parts that do not add up to the whole");
    }

    void check_places() const
    {
        const i64 places = rule_.shape_of(rule_.results[0])[0];
        one_for_each("at", *a_.at, std::vector<i64>(rule_.operands.size(), places));
        std::vector<i64> at = *a_.at;
        std::ranges::sort(at);
        if (const auto twice = std::adjacent_find(at.begin(), at.end()); twice != at.end())
            fail("at", std::to_string(*twice), "a different position for each operand",
                 "use each position once");
    }

    const Graph& g_;
    const Op& op_;
    const Attributes& a_;
    const FactorRule& rule_;
};

} // namespace

const std::vector<i64>* NumberLists::find(Attr attr) const
{
    for (const Entry& entry : entries_)
        if (entry.attr == attr)
            return &entry.numbers;
    return nullptr;
}

void NumberLists::set(Attr attr, std::vector<i64> numbers)
{
    const auto at = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.attr >= attr; });
    if (at != entries_.end() && at->attr == attr)
        at->numbers = std::move(numbers);
    else
        entries_.insert(at, {attr, std::move(numbers)});
}

i64 Attributes::offset_of(std::string_view factor) const
{
    for (const FactorSize& offset : offsets)
        if (offset.factor == factor)
            return offset.size;
    return 0;
}

SequenceOrder Attributes::order_of_tokens() const
{
    const std::vector<i64>* order = lists.find(Attr::order);
    return order ? SequenceOrder{order->at(0), order->at(1)} : SequenceOrder{};
}

Attributes merged(Attributes first, const Attributes& second)
{
    each_attribute([&](Attr, const char*, auto member) {
        auto& value = first.*member;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, FactorSizes>)
            value.insert(value.end(), (second.*member).begin(), (second.*member).end());
        else if (!value)
            value = second.*member;
    });
    for (const NumberLists::Entry& list : second.lists.entries())
        if (!first.lists.find(list.attr))
            first.lists.set(list.attr, list.numbers);
    return first;
}

void check_attributes(const Graph& graph, const Op& op, const FactorRule& rule)
{
    AttributeCheck(graph, op, rule).run();
}

namespace {

/// Whether one number, or each of several, is within its bound.
bool fits(double number, Bound bound)
{
    return std::isfinite(number) &&
           (bound == Bound::any || number > 0 || (bound == Bound::from_zero && number == 0));
}
bool fits(i64 number, Bound bound)
{
    return fits(static_cast<double>(number), bound) && number <= max_elements;
}
bool fits(const std::vector<double>& numbers, Bound bound)
{
    return std::ranges::all_of(numbers, [=](double number) { return fits(number, bound); });
}
bool fits(bool, Bound) { return true; }
bool fits(RopeKind, Bound) { return true; }

std::string shown(double number) { return str(number); }
std::string shown(const std::vector<double>& numbers)
{
    std::string text;
    for (const double number : numbers)
        text += str(text.empty() ? "" : " ", number);
    return text;
}
template <class Other>
std::string shown(Other value)
{
    return std::to_string(static_cast<i64>(value));
}

/// A table has a type and a shape that it can have, and as many factors as pairs.
void check_table(const Graph& graph, const Value& value, const RopeAngles& angles)
{
    const Shape& shape = whole_shape(value);
    const std::string place = str(source_place(graph, value.line), "%", value.name);
    if ((value.type.dtype != DType::f64 && value.type.dtype != DType::f32) || shape.size() != 3 ||
        shape[2] != 2)
        throw UserError({place, str("cannot have init rope_table as ", value.type), "",
                         "use f32 or f64, [positions, pairs, 2]"});
    const RopeScaling& s = angles.scaling;
    if (s.kind != RopeKind::longrope)
        return;
    for (const auto& [name, factors] :
         {std::pair{"short_factors", &s.short_factors}, {"long_factors", &s.long_factors}})
        if (static_cast<i64>(factors->size()) != shape[1])
            throw UserError({place, str("has ", counted(factors->size(), "number"), " in '", name, "'"),
                             str("the table has ", counted(shape[1], "pair")), "write one for each pair"});
}

} // namespace

void check_init(const Graph& graph, const Value& value)
{
    std::visit(
        [&](const auto& content) {
            using Content = std::decay_t<decltype(content)>;
            if constexpr (!std::is_same_v<Content, std::monostate>)
                Content::keys(
                    content, [&](const char* name, const auto& member, Bound bound, const auto&...) {
                        if (!fits(member, bound))
                            refuse_attribute(str(source_place(graph, value.line), "%", value.name), name,
                                             shown(member),
                                             bound == Bound::any         ? "a real number"
                                             : bound == Bound::from_zero ? "a number that is not negative"
                                                                         : "a number above 0",
                                             "use another number");
                    });
            if constexpr (std::is_same_v<Content, RopeTableInit>)
                check_table(graph, value, content.angles);
        },
        *value.init);
}

} // namespace trivium
