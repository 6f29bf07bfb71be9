#include "random_program.hpp"

#include "ir/builder.hpp"
#include "passes/autodiff.hpp"

#include <algorithm>
#include <random>

namespace trivium {

namespace {

using A = Attr;
using K = OpKind;
using Draw = std::mt19937_64;
using Numbers = std::vector<i64>;

i64 below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<std::uint64_t>(n)); }

class Program {
public:
    Program(std::uint64_t seed, const RandomConfig& config) : draw_(seed), config_(config), b_(graph_)
    {
        graph_.name = "random";
        graph_.mesh = config.mesh;
        for (int i = 0; i < 4; ++i)
            give(i % 2 == 0);
        const i64 ops = config.least_ops + below(draw_, config.most_ops - config.least_ops + 1);
        while (static_cast<i64>(graph_.ops.size()) < ops)
            step();
        finish();
    }

    Graph take() { return std::move(graph_); }

private:
    struct Known {
        ValueId id;
        bool exact = true; ///< no sums: rounding does not depend on the partition
    };

    Shape shape(ValueId v) const { return graph_[v].type.shape; }
    Known any() { return known_[static_cast<std::size_t>(below(draw_, static_cast<i64>(known_.size())))]; }
    Known any_of_rank(std::size_t least)
    {
        for (int i = 0; i < 20; ++i)
            if (const Known k = any(); shape(k.id).size() >= least)
                return k;
        return known_[0];
    }
    std::size_t dim(ValueId v)
    {
        return static_cast<std::size_t>(below(draw_, static_cast<i64>(shape(v).size())));
    }

    ValueId keep(ValueId v, bool exact)
    {
        if (graph_[v].type.elements() <= config_.most_elements)
            known_.push_back({v, exact});
        return v;
    }

    void give(bool parameter)
    {
        Shape shape;
        for (i64 d = 2 + below(draw_, 2); d > 0; --d)
            shape.push_back(config_.least_extent +
                            below(draw_, config_.most_extent - config_.least_extent + 1));
        keep(b_.value(str(parameter ? "w" : "a", graph_.values.size()), {DType::f64, shape},
                      parameter ? Role::parameter : Role::input),
             true);
    }

    /// A bounded function keeps numbers near 1.
    ValueId tame(ValueId v) { return b_.op1(K::tanh, {v}); }

    /// `x` in the given shape: padded or cut.
    ValueId fitted(ValueId x, const Shape& to)
    {
        Shape from = shape(x);
        if (from.size() != to.size()) {
            Shape same(to.size(), 1);
            same[0] = element_count(from);
            x = b_.op1(K::reshape, {x}, {.lists = {{A::shape, same}}});
            from = same;
        }
        if (from == to)
            return x;
        Numbers high(to.size());
        for (std::size_t d = 0; d < to.size(); ++d)
            high[d] = to[d] - from[d];
        return b_.op1(K::pad, {x},
                      {.value = 0.5, .lists = {{A::low, Numbers(to.size(), 0)}, {A::high, high}}});
    }

    void step()
    {
        switch (below(draw_, 20)) {
        case 0: {
            const Known x = any();
            constexpr K kinds[] = {K::tanh, K::sin, K::cos, K::sigmoid, K::negate, K::erf};
            keep(b_.op1(kinds[below(draw_, 6)], {x.id}), x.exact);
            break;
        }
        case 1:
        case 2: {
            const Known x = any(), y = any();
            constexpr K kinds[] = {K::add, K::subtract, K::multiply, K::add};
            keep(tame(b_.op1(kinds[below(draw_, 4)], {x.id, fitted(y.id, shape(x.id))})), x.exact && y.exact);
            break;
        }
        case 3: { // maximum of exact values: no ties that rounding breaks
            const Known x = any(), y = any();
            if (x.exact && y.exact && x.id != y.id)
                keep(b_.op1(below(draw_, 2) ? K::maximum : K::minimum, {x.id, fitted(y.id, shape(x.id))}),
                     true);
            break;
        }
        case 4:
        case 5: product(); break;
        case 6: {
            const Known x = any_of_rank(2);
            Numbers dims{static_cast<i64>(dim(x.id))};
            keep(tame(b_.op1(K::reduce, {x.id}, {.combine = Combine::sum, .lists = {{A::dims, dims}}})),
                 false);
            break;
        }
        case 7: {
            const Known x = any();
            if (!x.exact || shape(x.id).size() < 2)
                break;
            Numbers dims{static_cast<i64>(dim(x.id))};
            keep(b_.op1(
                     K::reduce, {x.id},
                     {.combine = below(draw_, 2) ? Combine::max : Combine::min, .lists = {{A::dims, dims}}}),
                 true);
            break;
        }
        case 8: {
            const Known x = any();
            if (shape(x.id).size() > 2)
                break;
            Shape to = shape(x.id);
            const i64 at = below(draw_, static_cast<i64>(to.size()) + 1);
            to.insert(to.begin() + at, 2 + below(draw_, 6));
            Numbers dims;
            for (i64 d = 0; d < static_cast<i64>(to.size()); ++d)
                if (d != at)
                    dims.push_back(d);
            keep(b_.op1(K::broadcast, {x.id}, {.lists = {{A::dims, dims}, {A::shape, to}}}), x.exact);
            break;
        }
        case 9: {
            const Known x = any();
            Numbers dims(shape(x.id).size());
            for (std::size_t d = 0; d < dims.size(); ++d)
                dims[d] = static_cast<i64>(d);
            std::shuffle(dims.begin(), dims.end(), draw_);
            keep(b_.op1(K::transpose, {x.id}, {.lists = {{A::dims, dims}}}), x.exact);
            break;
        }
        case 10: reshape(); break;
        case 11: {
            const Known x = any();
            const std::size_t d = dim(x.id);
            Numbers start(shape(x.id).size(), 0), limit = shape(x.id), stride(start.size(), 1);
            start[d] = below(draw_, limit[d]);
            limit[d] = start[d] + 1 + below(draw_, limit[d] - start[d]);
            stride[d] = 1 + below(draw_, 3);
            if (limit[d] - start[d] < 2)
                break;
            keep(b_.op1(K::slice, {x.id},
                        {.lists = {{A::start, start}, {A::limit, limit}, {A::stride, stride}}}),
                 x.exact);
            break;
        }
        case 12: {
            const Known x = any();
            Numbers low, high, interior;
            bool empty = false;
            for (const i64 extent : shape(x.id)) {
                low.push_back(below(draw_, 4) - 1);
                high.push_back(below(draw_, 4) - 1);
                interior.push_back(below(draw_, 2));
                empty = empty || (extent - 1) * (interior.back() + 1) + 1 + low.back() + high.back() < 1;
            }
            if (!empty)
                keep(b_.op1(
                         K::pad, {x.id},
                         {.value = 0.25, .lists = {{A::low, low}, {A::high, high}, {A::interior, interior}}}),
                     x.exact);
            break;
        }
        case 13: {
            const Known x = any(), y = any();
            const std::size_t d = dim(x.id);
            Shape other = shape(x.id);
            other[d] = 1 + below(draw_, 6);
            keep(b_.op1(K::concatenate, {x.id, fitted(y.id, other)},
                        {.lists = {{A::dims, {static_cast<i64>(d)}}}}),
                 x.exact && y.exact);
            break;
        }
        case 14: {
            const Known x = any();
            keep(b_.op1(K::reverse, {x.id}, {.lists = {{A::dims, {static_cast<i64>(dim(x.id))}}}}), x.exact);
            break;
        }
        case 15: {
            const Known x = any();
            keep(tame(b_.op1(K::cumsum, {x.id}, {.lists = {{A::dims, {static_cast<i64>(dim(x.id))}}}})),
                 false);
            break;
        }
        case 16: {
            const Known x = any();
            if (x.exact)
                keep(b_.op(K::sort, {x.id}, {.lists = {{A::dims, {static_cast<i64>(dim(x.id))}}}})[0], true);
            break;
        }
        case 17: gather(); break;
        case 18: window(); break;
        default: {
            const Known x = any();
            Sharding sharding = random_sharding(draw_(), shape(x.id), config_.mesh);
            keep(b_.reshard_to(x.id, sharding), x.exact);
        }
        }
    }

    void product()
    {
        const Known x = any_of_rank(2);
        const Shape in = shape(x.id);
        const i64 out = 2 + below(draw_, 9);
        const ValueId w =
            b_.value(str("w", graph_.values.size()), {DType::f64, {in.back(), out}}, Role::parameter);
        keep(tame(b_.op1(K::matmul, {x.id, w},
                         {.rule = in.size() == 2   ? Rule("m k, k n -> m n")
                                  : in.size() == 3 ? Rule("b m k, k n -> b m n")
                                                   : Rule("a b m k, k n -> a b m n")})),
             false);
    }

    void reshape()
    {
        const Known x = any();
        Shape to = shape(x.id);
        if (below(draw_, 2) && to.size() > 1) { // join two
            const std::size_t d = static_cast<std::size_t>(below(draw_, static_cast<i64>(to.size()) - 1));
            to[d] *= to[d + 1];
            to.erase(to.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        } else if (to.size() < 4) { // divide one
            const std::size_t d = dim(x.id);
            for (const i64 part : {2, 3, 5})
                if (to[d] % part == 0) {
                    to[d] /= part;
                    to.insert(to.begin() + static_cast<std::ptrdiff_t>(d) + below(draw_, 2), part);
                    break;
                }
        }
        keep(b_.op1(K::reshape, {x.id}, {.lists = {{A::shape, to}}}), x.exact);
    }

    void gather()
    {
        const Known x = any_of_rank(2);
        const Shape in = shape(x.id);
        const i64 rows = 2 + below(draw_, 7);
        const ValueId ids = b_.value(str("i", graph_.values.size()), {DType::i32, {rows}}, Role::input);
        Numbers offsets, sizes = in;
        for (i64 d = 1; d < static_cast<i64>(in.size()); ++d)
            offsets.push_back(d);
        sizes[0] = 1;
        const ValueId y = b_.op1(K::gather, {x.id, ids},
                                 {.lists = {{A::offset_dims, offsets},
                                            {A::collapsed_dims, {0}},
                                            {A::index_map, {0}},
                                            {A::index_dim, {1}},
                                            {A::slice_sizes, sizes}}});
        keep(y, x.exact);
        if (below(draw_, 2))
            keep(tame(b_.op1(K::scatter, {x.id, ids, y},
                             {.combine = Combine::sum,
                              .lists = {{A::offset_dims, offsets},
                                        {A::collapsed_dims, {0}},
                                        {A::index_map, {0}},
                                        {A::index_dim, {1}}}})),
                 false);
    }

    void window()
    {
        const Known x = any_of_rank(3);
        const Shape in = shape(x.id);
        if (in.size() != 3)
            return;
        const i64 size = 1 + below(draw_, std::min<i64>(3, in[2])), stride = 1 + below(draw_, 2),
                  low = below(draw_, 2);
        if (below(draw_, 2)) {
            const ValueId w = b_.value(str("w", graph_.values.size()),
                                       {DType::f64, {2 + below(draw_, 5), in[1], size}}, Role::parameter);
            keep(tame(b_.op1(K::convolution, {x.id, w},
                             {.lists = {{A::stride, {stride}}, {A::low, {low}}, {A::high, {1}}}})),
                 false);
        } else {
            keep(tame(b_.op1(K::pool, {x.id},
                             {.combine = Combine::sum,
                              .lists = {{A::window, {1, 1, size}},
                                        {A::stride, {1, 1, stride}},
                                        {A::low, {0, 0, low}},
                                        {A::high, {0, 0, 1}}}})),
                 false);
        }
    }

    void finish()
    {
        std::vector<bool> read(graph_.values.size(), false);
        for (const Op& op : graph_.ops)
            for (const ValueId v : op.operands)
                read[v.index()] = true;
        ValueId loss;
        const std::size_t values = graph_.values.size();
        for (std::size_t i = 0; i < values; ++i) {
            const ValueId v(i);
            if (read[i] || graph_[v].type.dtype != DType::f64 || !graph_[v].producer)
                continue;
            graph_.outputs.push_back(v);
            if (!config_.loss)
                continue;
            Numbers dims(shape(v).size());
            for (std::size_t d = 0; d < dims.size(); ++d)
                dims[d] = static_cast<i64>(d);
            const ValueId sum = b_.op1(K::reduce, {b_.op1(K::sin, {v})},
                                       {.combine = Combine::sum, .lists = {{A::dims, dims}}});
            loss = loss ? b_.sum_of(loss, sum) : sum;
        }
        if (loss) {
            graph_[loss].name = "loss";
            graph_.outputs.push_back(loss);
        }
        for (std::size_t i = 0; i < graph_.values.size(); ++i) {
            Value& v = graph_.values[i];
            if (below(draw_, config_.annotated) == 0 && v.sharding.dims.empty() && !v.type.shape.empty())
                v.sharding = random_sharding(draw_(), v.type.shape, config_.mesh);
        }
        if (!loss || !config_.backward)
            return;
        graph_ = autodiff(std::move(graph_), {.loss = "loss"});
        for (const ValueId p : graph_.with_role(Role::parameter))
            if (const ValueId g = graph_.find("grad." + graph_[p].name))
                graph_.outputs.push_back(g);
    }

    Draw draw_;
    const RandomConfig& config_;
    Graph graph_;
    Builder b_;
    std::vector<Known> known_;
};

} // namespace

Graph random_program(std::uint64_t seed, const RandomConfig& config) { return Program(seed, config).take(); }

Sharding random_sharding(std::uint64_t seed, const Shape& shape, const Mesh& mesh)
{
    Draw draw(seed);
    Sharding sharding;
    sharding.dims.resize(shape.size());
    std::vector<MeshAxis> axes = mesh.axes;
    std::shuffle(axes.begin(), axes.end(), draw);
    for (const MeshAxis& axis : axes) {
        if (shape.empty() || below(draw, 3) == 0)
            continue;
        const auto d = static_cast<std::size_t>(below(draw, static_cast<i64>(shape.size())));
        i64 parts = axis.size;
        for (const std::string& other : sharding.dims[d].axes)
            parts *= mesh.size(other);
        if (parts <= shape[d])
            sharding.dims[d].axes.push_back(axis.name);
    }
    for (DimSharding& dim : sharding.dims) {
        dim.open = below(draw, 2) == 0;
        dim.priority = static_cast<int>(below(draw, 4) == 0 ? 1 : 0);
    }
    return sharding;
}

} // namespace trivium
