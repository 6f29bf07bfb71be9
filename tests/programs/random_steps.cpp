#include "random_steps.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

namespace {

using A = Attr;
using K = OpKind;

} // namespace

RandomSteps::RandomSteps(Draw& draw, Graph& graph, const RandomConfig& config)
    : draw_(draw), graph_(graph), b_(graph), backward_(config.backward),
      regions_(config.regions && !config.backward), most_elements_(config.most_elements)
{
    for (int i = 0; i < 5; ++i) {
        Shape shape;
        for (i64 d = upto(2, 3); d > 0; --d)
            shape.push_back(one_in(12) ? 1 : upto(config.least_extent, config.most_extent));
        const bool parameter = i % 2 == 0, whole = i == 3;
        keep(given(parameter ? "w" : "a", whole ? DType::i32 : DType::f64, shape,
                   parameter ? Role::parameter : Role::input),
             true);
    }
}

void RandomSteps::step()
{
    using Step = void (RandomSteps::*)();
    using S = RandomSteps;
    static constexpr Step steps[] = {&S::unary,        &S::unary,         &S::binary,         &S::binary,
                                     &S::integers,     &S::choose,        &S::cast,           &S::create,
                                     &S::reduce,       &S::reduce,        &S::product,        &S::product,
                                     &S::broadcast,    &S::transpose,     &S::reshape,        &S::reshape,
                                     &S::slice,        &S::pad,           &S::concatenate,    &S::reverse,
                                     &S::cumsum,       &S::sort,          &S::top_k,          &S::gather_rows,
                                     &S::gather_batch, &S::dynamic_slice, &S::dynamic_update, &S::convolution,
                                     &S::pool,         &S::reshard,       &S::reshard};
    if (regions_ && !in_region_ && one_in(4))
        region();
    else
        (this->*steps[below(draw_, std::size(steps))])();
}

RandomSteps::Known RandomSteps::any(DType type, std::size_t least)
{
    const auto count = static_cast<i64>(known_.size());
    for (int i = 0; i < 60; ++i) { // half of the time a late one, so that programs get deep
        const i64 at = one_in(2) ? upto(std::max<i64>(0, count - 6), count - 1) : below(draw_, count);
        const Known k = known_[static_cast<std::size_t>(at)];
        if (graph_[k.id].type.dtype == type && shape(k.id).size() >= least)
            return k;
    }
    Shape shape(least, 2);
    shape[0] = upto(2, 9);
    return {keep(given("a", type, shape, Role::input), true)};
}

RandomSteps::Known RandomSteps::exact(DType type, std::size_t least)
{
    for (int i = 0; i < 20; ++i)
        if (const Known k = any(type, least); k.exact)
            return k;
    Shape shape(least, 3);
    shape[0] = upto(2, 12);
    return {keep(given("a", type, shape, Role::input), true)};
}

ValueId RandomSteps::keep(ValueId v, bool exact)
{
    if (graph_[v].type.elements() <= most_elements_ && shape(v).size() <= 5)
        known_.push_back({v, exact || graph_[v].type.dtype == DType::i32});
    return v;
}

ValueId RandomSteps::given(const char* name, DType type, const Shape& shape, Role role)
{
    return b_.value(str(name, graph_.values.size()), {type, shape}, role);
}

ValueId RandomSteps::op(OpKind kind, std::vector<ValueId> operands, Attributes attrs)
{
    return b_.op1(kind, std::move(operands), std::move(attrs));
}

ValueId RandomSteps::constant(ValueId like, double value)
{
    return op(K::constant, {},
              {.dtype = graph_[like].type.dtype, .value = value, .lists = {{A::shape, shape(like)}}});
}

ValueId RandomSteps::tame(ValueId v)
{
    return graph_[v].type.dtype == DType::i32 ? op(K::remainder, {v, constant(v, 7)}) : op(K::tanh, {v});
}

ValueId RandomSteps::positive(ValueId v) { return op(K::add, {op(K::multiply, {v, v}), constant(v, 1)}); }

ValueId RandomSteps::fitted(ValueId x, const Shape& to)
{
    Shape from = shape(x);
    if (from.size() != to.size()) {
        Shape same(to.size(), 1);
        if (!same.empty())
            same[0] = element_count(from);
        else
            x = op(K::slice, {x},
                   {.lists = {{A::start, Numbers(from.size(), 0)}, {A::limit, Numbers(from.size(), 1)}}});
        x = op(K::reshape, {x}, {.lists = {{A::shape, same}}});
        from = same;
    }
    if (from == to)
        return x;
    Numbers high(to.size());
    for (std::size_t d = 0; d < to.size(); ++d)
        high[d] = to[d] - from[d];
    return op(K::pad, {x},
              {.value = graph_[x].type.dtype == DType::i32 ? 1 : 0.5,
               .lists = {{A::low, Numbers(to.size(), 0)}, {A::high, high}}});
}

void RandomSteps::unary()
{
    const Known x = any();
    switch (below(draw_, 12)) {
    case 0: keep(op(K::log, {positive(x.id)}), x.exact); break;
    case 1: keep(op(K::rsqrt, {positive(x.id)}), x.exact); break;
    case 2: keep(tame(op(K::sqrt, {positive(x.id)})), x.exact); break;
    case 3: keep(op(K::log1p, {op(K::multiply, {x.id, x.id})}), x.exact); break;
    case 4: keep(op(one_in(2) ? K::exp : K::expm1, {tame(x.id)}), x.exact); break;
    case 5:
    case 6: { // they jump
        const Known e = exact();
        constexpr K kinds[] = {K::abs, K::sign, K::floor, K::ceil};
        keep(op(kinds[below(draw_, 4)], {e.id}), true);
        break;
    }
    default: {
        constexpr K kinds[] = {K::tanh, K::sin, K::cos, K::sigmoid, K::negate, K::erf};
        keep(op(kinds[below(draw_, 6)], {x.id}), x.exact);
    }
    }
}

void RandomSteps::binary()
{
    const Known x = any(), y = any();
    const ValueId z = fitted(y.id, shape(x.id));
    const bool both = x.exact && y.exact;
    switch (below(draw_, 9)) {
    case 0: keep(op(K::divide, {x.id, positive(z)}), both); break;
    case 1: keep(tame(op(K::power, {positive(x.id), tame(z)})), both); break;
    case 2:
    case 3: // exact: no ties that rounding breaks
        if (both && x.id != y.id)
            keep(op(one_in(2) ? K::maximum : K::minimum, {x.id, z}), true);
        break;
    case 4:
        if (both)
            keep(op(K::remainder, {x.id, positive(z)}), true);
        break;
    default: {
        constexpr K kinds[] = {K::add, K::subtract, K::multiply};
        keep(tame(op(kinds[below(draw_, 3)], {x.id, z})), both);
    }
    }
}

void RandomSteps::integers()
{
    const Known x = any(DType::i32), y = any(DType::i32);
    constexpr K kinds[] = {K::add,     K::subtract,    K::multiply,    K::maximum,
                           K::minimum, K::logical_and, K::logical_xor, K::logical_or};
    if (one_in(6))
        keep(op(one_in(2) ? K::negate : K::logical_not, {x.id}), true);
    else
        keep(tame(op(kinds[below(draw_, 8)], {x.id, fitted(y.id, shape(x.id))})), true);
}

void RandomSteps::choose()
{
    const DType type = one_in(3) ? DType::i32 : DType::f64;
    const Known x = exact(type), y = exact(type);
    constexpr const char* directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    const ValueId p =
        op(K::compare, {x.id, fitted(y.id, shape(x.id))}, {.direction = directions[below(draw_, 6)]});
    keep(p, true);
    const Known u = either(), v = any(graph_[u.id].type.dtype);
    keep(op(K::select, {fitted(p, shape(u.id)), u.id, fitted(v.id, shape(u.id))}), u.exact && v.exact);
}

void RandomSteps::cast()
{
    if (one_in(2)) {
        keep(op(K::cast, {any(DType::i32).id}, {.dtype = DType::f64}), true);
        return;
    }
    const Known x = exact();
    constexpr DType types[] = {DType::i32, DType::i32, DType::f32, DType::bf16};
    const DType type = types[below(draw_, 4)];
    const ValueId y = op(K::cast, {op(K::multiply, {x.id, constant(x.id, 3)})}, {.dtype = type});
    if (type == DType::i32)
        keep(tame(y), true);
    else
        keep(tame(op(K::cast, {y}, {.dtype = DType::f64})), true);
}

void RandomSteps::create()
{
    const Shape shape{upto(2, 12), upto(1, 9)};
    const DType type = one_in(3) ? DType::i32 : DType::f64;
    if (one_in(3))
        keep(op(K::constant, {}, {.dtype = type, .value = 2, .lists = {{A::shape, shape}}}), true);
    else
        keep(tame(op(K::iota, {},
                     {.dtype = type, .lists = {{A::shape, shape}, {A::dims, {below(draw_, 2)}}}})),
             true);
}

void RandomSteps::reduce()
{
    const Known x = either();
    const std::size_t rank = shape(x.id).size();
    Numbers dims;
    for (std::size_t d = 0; d < rank; ++d)
        if (one_in(2) && dims.size() + 1 < rank)
            dims.push_back(static_cast<i64>(d));
    if (dims.empty() && rank > 1)
        dims = {dim(x.id)};
    const auto with = [&](Combine combine) {
        return Attributes{.combine = combine, .lists = {{A::dims, dims}}};
    };
    i64 factors = 1;
    for (const i64 d : dims)
        factors *= shape(x.id)[static_cast<std::size_t>(d)];
    const bool few = factors <= 64; // their product is finite
    if (x.exact && one_in(2))
        keep(op(K::reduce, {x.id}, with(one_in(2) ? Combine::max : Combine::min)), true);
    else if (one_in(4) && few && graph_[x.id].type.dtype == DType::f64) // of numbers near 1
        keep(tame(op(K::reduce, {op(K::add, {op(K::sigmoid, {x.id}), constant(x.id, 0.5)})},
                     with(Combine::product))),
             false);
    else
        keep(tame(op(K::reduce, {x.id}, with(Combine::sum))), false);
}

void RandomSteps::product()
{
    const Known x = any(DType::f64, 2);
    const Shape in = shape(x.id);
    if (in.size() > 4)
        return;
    const i64 out = upto(2, 10);
    const bool last = one_in(2); // the dimension that is summed
    Shape with = last ? Shape{in.back(), out} : Shape{out, in[0]};
    std::string rule;
    switch (in.size()) {
    case 2: rule = last ? "m k, k n -> m n" : "k m, n k -> n m"; break;
    case 3: rule = last ? "b m k, k n -> b m n" : "k a b, n k -> a n b"; break;
    default: rule = last ? "a b m k, k n -> a b m n" : "k a b c, n k -> a n b c";
    }
    if (in.size() == 3 && one_in(3)) {
        with = {in[0], out, in[2]};
        rule = "b m k, b n k -> m b n";
    }
    const ValueId w = one_in(3) ? fitted(any().id, with) : given("w", DType::f64, with, Role::parameter);
    keep(tame(op(K::matmul, {x.id, w}, {.rule = Rule(rule)})), false);
}

void RandomSteps::broadcast()
{
    const Known x = either();
    Shape to = shape(x.id);
    if (to.size() > 3 || element_count(to) > most_elements_ / 7)
        return;
    Numbers dims(to.size());
    std::iota(dims.begin(), dims.end(), 0);
    for (i64& extent : to) // those of one may grow
        if (extent == 1 && one_in(2))
            extent = upto(2, 8);
    const i64 at = below(draw_, static_cast<i64>(to.size()) + 1);
    to.insert(to.begin() + at, upto(1, 7));
    for (i64& d : dims)
        d += d >= at ? 1 : 0;
    keep(op(K::broadcast, {x.id}, {.lists = {{A::dims, dims}, {A::shape, to}}}), x.exact);
}

void RandomSteps::transpose()
{
    const Known x = either();
    Numbers dims(shape(x.id).size());
    std::iota(dims.begin(), dims.end(), 0);
    std::shuffle(dims.begin(), dims.end(), draw_);
    keep(op(K::transpose, {x.id}, {.lists = {{A::dims, dims}}}), x.exact);
}

void RandomSteps::reshape()
{
    const Known x = either();
    Shape to = shape(x.id);
    const auto split = [&](std::size_t d) {
        for (const i64 part : {2, 3, 5, 7})
            if (to.size() < 5 && to[d] % part == 0 && to[d] > part) {
                to[d] /= part;
                to.insert(to.begin() + static_cast<std::ptrdiff_t>(d) + below(draw_, 2), part);
                return;
            }
    };
    const auto merge = [&](std::size_t d) {
        to[d] *= to[d + 1];
        to.erase(to.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    };
    for (i64 times = upto(1, 3); times > 0; --times) {
        if (one_in(2) && to.size() > 1)
            merge(static_cast<std::size_t>(below(draw_, static_cast<i64>(to.size()) - 1)));
        else if (one_in(8) && to.size() < 5)
            to.insert(to.begin() + below(draw_, static_cast<i64>(to.size()) + 1), 1);
        else
            split(static_cast<std::size_t>(below(draw_, static_cast<i64>(to.size()))));
    }
    keep(op(K::reshape, {x.id}, {.lists = {{A::shape, to}}}), x.exact);
}

void RandomSteps::slice()
{
    const Known x = either();
    Numbers start(shape(x.id).size(), 0), limit = shape(x.id), stride(start.size(), 1);
    for (std::size_t d = 0; d < start.size(); ++d) {
        if (!one_in(2))
            continue;
        start[d] = below(draw_, std::max<i64>(limit[d] / 2, 1));
        limit[d] = upto(start[d] + 1, limit[d]);
        stride[d] = upto(1, 4);
    }
    keep(op(K::slice, {x.id}, {.lists = {{A::start, start}, {A::limit, limit}, {A::stride, stride}}}),
         x.exact);
}

void RandomSteps::pad()
{
    const Known x = either();
    Numbers low, high, interior;
    i64 elements = 1;
    for (const i64 extent : shape(x.id)) {
        low.push_back(upto(-2, 3));
        high.push_back(upto(-2, 3));
        interior.push_back(below(draw_, 3) / 2);
        elements *= std::max<i64>(0, (extent - 1) * (interior.back() + 1) + 1 + low.back() + high.back());
    }
    if (elements < 1 || elements > most_elements_)
        return;
    const double value = graph_[x.id].type.dtype == DType::i32 ? 3 : 0.25;
    keep(op(K::pad, {x.id},
            {.value = value, .lists = {{A::low, low}, {A::high, high}, {A::interior, interior}}}),
         x.exact);
}

void RandomSteps::concatenate()
{
    const Known x = either();
    const i64 d = dim(x.id);
    std::vector<ValueId> parts{x.id};
    bool all = x.exact;
    for (i64 more = upto(1, 2); more > 0; --more) {
        const Known y = any(graph_[x.id].type.dtype);
        Shape other = shape(x.id);
        other[static_cast<std::size_t>(d)] = upto(1, 6);
        parts.push_back(fitted(y.id, other));
        all = all && y.exact;
    }
    std::shuffle(parts.begin(), parts.end(), draw_);
    keep(op(K::concatenate, parts, {.lists = {{A::dims, {d}}}}), all);
}

void RandomSteps::reverse()
{
    const Known x = either();
    Numbers dims;
    for (i64 d = 0; d < static_cast<i64>(shape(x.id).size()); ++d)
        if (one_in(2))
            dims.push_back(d);
    keep(op(K::reverse, {x.id}, {.lists = {{A::dims, dims}}}), x.exact);
}

void RandomSteps::cumsum()
{
    const Known x = either();
    Attributes attrs{.lists = {{A::dims, {dim(x.id)}}}};
    if (one_in(2))
        attrs.lists.set(A::backwards, {1});
    keep(tame(op(K::cumsum, {x.id}, attrs)), false);
}

void RandomSteps::reshard()
{
    if (in_region_)
        return;
    const Known x = any();
    const Sharding sharding =
        drawn_sharding(draw_, graph_[x.id].type, graph_.mesh, drawn_pieces(draw_, graph_.mesh, false), {});
    keep(b_.reshard_to(x.id, sharding), x.exact);
}

} // namespace trivium
