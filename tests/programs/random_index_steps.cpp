// The steps of indices, windows and manual regions.
#include "base/check.hpp"
#include "ir/general/manual.hpp"
#include "ir/text/text.hpp"
#include "random_steps.hpp"

#include <algorithm>
#include <utility>

namespace trivium {

namespace {

using A = Attr;
using K = OpKind;

} // namespace

void RandomSteps::sort()
{
    const Known key = exact(one_in(3) ? DType::i32 : DType::f64);
    std::vector<ValueId> operands{key.id};
    std::vector<bool> exacts{true};
    for (i64 more = below(draw_, 3); more > 0; --more) {
        const Known y = either();
        operands.push_back(fitted(y.id, shape(key.id)));
        exacts.push_back(y.exact);
    }
    Attributes attrs{.lists = {{A::dims, {dim(key.id)}}}};
    if (one_in(2))
        attrs.lists.set(A::descending, {1});
    const std::vector<ValueId> sorted = b_.op(K::sort, operands, attrs);
    for (std::size_t i = 0; i < sorted.size(); ++i)
        keep(sorted[i], exacts[i]);
}

void RandomSteps::top_k()
{
    const Known x = exact(one_in(3) ? DType::i32 : DType::f64);
    for (const ValueId v : b_.op(K::top_k, {x.id}, {.lists = {{A::count, {upto(1, shape(x.id).back())}}}}))
        keep(v, true);
}

void RandomSteps::scatter_like(ValueId x, ValueId ids, ValueId updates, Attributes attrs, bool exact)
{
    if (!backward_ && exact && one_in(2)) {
        constexpr std::optional<Combine> combiners[] = {Combine::max, Combine::min, {}};
        attrs.combine = combiners[below(draw_, 3)];
        keep(op(K::scatter, {x, ids, updates}, attrs), true);
        return;
    }
    attrs.combine = Combine::sum;
    keep(tame(op(K::scatter, {x, ids, updates}, attrs)), false);
}

/// Gathers slices of these sizes; often scatters them, too. `attrs`: what the two ops share.
void RandomSteps::gather(Known x, ValueId ids, const Attributes& attrs, const Numbers& sizes)
{
    Attributes taking = attrs;
    taking.lists.set(A::slice_sizes, sizes);
    const ValueId y = op(K::gather, {x.id, ids}, taking);
    keep(y, x.exact);
    if (one_in(2))
        scatter_like(x.id, ids, y, attrs, x.exact);
}

void RandomSteps::gather_rows()
{
    const Known x = any(one_in(4) ? DType::i32 : DType::f64, 2);
    const Shape in = shape(x.id);
    const i64 rows = upto(1, 8), window = one_in(3) ? upto(1, in[0]) : 1;
    const bool collapses = window == 1 && one_in(2);
    // Indices of other values may be outside: they are clamped, or their updates are skipped.
    const ValueId ids =
        one_in(2) ? given("i", DType::i32, {rows}, Role::input) : fitted(any(DType::i32).id, {rows});
    Numbers offsets, sizes = in;
    for (i64 d = collapses ? 1 : 0; d < static_cast<i64>(in.size()); ++d)
        offsets.push_back(d + (collapses ? 0 : 1));
    sizes[0] = window;
    Attributes attrs{.lists = {{A::offset_dims, offsets}, {A::index_map, {0}}, {A::index_dim, {1}}}};
    if (collapses)
        attrs.lists.set(A::collapsed_dims, {0});
    gather(x, ids, attrs, sizes);
}

void RandomSteps::gather_batch()
{
    const Known x = any(one_in(4) ? DType::i32 : DType::f64, 2);
    const Shape in = shape(x.id);
    const i64 rows = upto(1, 6);
    // [batch, n, …] at [batch, rows]: the slices are [batch, rows, …].
    const ValueId ids = one_in(2) ? given("i", DType::i32, {in[0], rows}, Role::input)
                                  : fitted(any(DType::i32).id, {in[0], rows});
    Numbers offsets, sizes = in;
    for (i64 d = 2; d < static_cast<i64>(in.size()); ++d)
        offsets.push_back(d);
    sizes[0] = sizes[1] = 1;
    const Attributes attrs{.lists = {{A::offset_dims, offsets},
                                     {A::collapsed_dims, {1}},
                                     {A::batch_dims, {0}},
                                     {A::index_batch_dims, {0}},
                                     {A::index_map, {1}},
                                     {A::index_dim, {2}}}};
    gather(x, ids, attrs, sizes);
}

ValueId RandomSteps::start()
{
    if (!one_in(3))
        return given("s", DType::i32, {}, Role::input);
    return fitted(any(DType::i32).id, {});
}

void RandomSteps::dynamic_slice()
{
    const Known x = either();
    std::vector<ValueId> operands{x.id};
    Shape sizes;
    for (const i64 extent : shape(x.id)) {
        sizes.push_back(one_in(2) ? extent : upto(1, extent));
        operands.push_back(start());
    }
    keep(op(K::dynamic_slice, operands, {.lists = {{A::shape, sizes}}}), x.exact);
}

void RandomSteps::dynamic_update()
{
    const Known x = either(), u = any(graph_[x.id].type.dtype);
    std::vector<ValueId> operands{x.id, {}};
    Shape sizes;
    for (const i64 extent : shape(x.id)) {
        sizes.push_back(one_in(2) ? extent : upto(1, extent));
        operands.push_back(start());
    }
    operands[1] = fitted(u.id, sizes);
    keep(op(K::dynamic_update_slice, operands), x.exact && u.exact);
}

void RandomSteps::convolution()
{
    const Known known = any(DType::f64, 2);
    ValueId x = known.id;
    if (shape(x).size() == 2) // one image, or one channel
        x = op(K::reshape, {x},
               {.lists = {{A::shape, one_in(2) ? Shape{1, shape(x)[0], shape(x)[1]}
                                               : Shape{shape(x)[0], 1, shape(x)[1]}}}});
    const Shape in = shape(x);
    Numbers divisors;
    for (i64 g = 1; g <= in[1]; ++g)
        if (in[1] % g == 0)
            divisors.push_back(g);
    const i64 groups =
        one_in(2) ? 1 : divisors[static_cast<std::size_t>(below(draw_, static_cast<i64>(divisors.size())))];
    Shape weights{groups * upto(1, 4), in[1] / groups};
    Numbers stride, low, high, dilation, base;
    for (std::size_t d = 2; d < in.size(); ++d) {
        weights.push_back(upto(1, std::min<i64>(4, in[d])));
        stride.push_back(upto(1, 3));
        low.push_back(upto(-1, 2));
        high.push_back(upto(-1, 3));
        dilation.push_back(one_in(3) ? 2 : 1);
        base.push_back(one_in(4) ? 2 : 1);
        if ((in[d] - 1) * base.back() + 1 + low.back() + high.back() <=
            (weights.back() - 1) * dilation.back())
            return; // no window
    }
    const ValueId w =
        one_in(4) ? fitted(any().id, weights) : given("w", DType::f64, weights, Role::parameter);
    keep(tame(op(K::convolution, {x, w},
                 {.lists = {{A::stride, stride},
                            {A::low, low},
                            {A::high, high},
                            {A::dilation, dilation},
                            {A::base, base},
                            {A::groups, {groups}}}})),
         false);
}

void RandomSteps::pool()
{
    const bool sums = one_in(2);
    const Known x = sums ? either() : exact(one_in(4) ? DType::i32 : DType::f64);
    Numbers window, stride, low, high, dilation, base;
    for (const i64 extent : shape(x.id)) {
        const bool moves = one_in(2);
        window.push_back(moves ? upto(1, std::min<i64>(extent, 5)) : 1);
        stride.push_back(moves ? upto(1, 3) : 1);
        dilation.push_back(moves && one_in(3) ? 2 : 1);
        base.push_back(moves && sums && one_in(4) ? 2 : 1);
        low.push_back(moves ? upto(0, window.back() - 1)
                            : 0); // no window of padding alone: its maximum is infinite
        high.push_back(moves ? upto(0, window.back() - 1) : 0);
        if ((extent - 1) * base.back() + 1 + low.back() + high.back() <=
            (window.back() - 1) * dilation.back())
            return;
    }
    keep(tame(op(K::pool, {x.id},
                 {.combine = sums        ? Combine::sum
                             : one_in(2) ? Combine::max
                                         : Combine::min,
                  .lists = {{A::window, window},
                            {A::stride, stride},
                            {A::low, low},
                            {A::high, high},
                            {A::dilation, dilation},
                            {A::base, base}}})),
         !sums);
}

/// A region's axes, each on some dimension of `v`. With `divides`, only where its extent divides into equal
/// parts.
Attributes RandomSteps::manual_over(ValueId v, const std::vector<std::string>& axes, bool divides)
{
    Sharding manual;
    Shape inside = shape(v);
    manual.dims.assign(inside.size(), {{}, false});
    for (const std::string& axis : axes) {
        const auto d = static_cast<std::size_t>(dim(v));
        const i64 size = graph_.mesh.size(axis);
        if (divides && (one_in(4) || inside[d] % size != 0))
            continue;
        manual.dims[d].axes.push_back(axis);
        inside[d] /= size;
    }
    return {.sharding = to_text(manual)};
}

/// Steps on tensors of which each rank along some axes has its own, and on whole ones.
void RandomSteps::region()
{
    if (!regions_ || in_region_)
        return;
    std::vector<std::string> axes;
    for (const MeshAxis& axis : graph_.mesh.axes)
        axes.push_back(axis.name);
    const std::vector<Known> outside = known_;
    known_.clear();
    for (i64 i = upto(1, 3); i > 0; --i)
        known_.push_back(outside[static_cast<std::size_t>(below(draw_, static_cast<i64>(outside.size())))]);
    for (i64 i = upto(1, 3); i > 0; --i) {
        const Known& x = outside[static_cast<std::size_t>(below(draw_, static_cast<i64>(outside.size())))];
        if (!shape(x.id).empty())
            keep(op(K::local, {x.id}, manual_over(x.id, axes, true)), x.exact);
    }
    in_region_ = true;
    for (i64 i = upto(1, 5); i > 0; --i)
        step();
    in_region_ = false;
    const std::vector<std::vector<std::string>> regions = manual_axes(graph_);
    const std::vector<Known> made = std::exchange(known_, outside);
    for (const Known& k : made) {
        if (regions.empty() || regions[k.id.index()].empty())
            continue;
        const ValueId whole =
            shape(k.id).empty() ? op(K::reshape, {k.id}, {.lists = {{A::shape, {1}}}}) : k.id;
        keep(op(K::global, {whole}, manual_over(whole, regions[k.id.index()], false)), k.exact);
    }
}

} // namespace trivium
