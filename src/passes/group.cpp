#include "passes/group.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/general/columns.hpp"
#include "ir/ops/product_form.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

/// Parts begin at multiples of this, as the kernels of devices require.
constexpr Bytes part_alignment = 16;

/// The products of one X with each weight of a group, in the order of the weights.
struct Forward {
    std::vector<std::size_t> products, biases; ///< ops; biases: empty if there are none
    std::vector<ValueId> parts;                ///< results, with their biases
};

/// The products with the same weights' gradient of X, and their sum.
struct Backward {
    std::vector<std::size_t> products, sums;
    std::vector<ValueId> gradients; ///< of the parts
    ValueId sum;
};

struct WeightGroup {
    std::vector<ValueId> weights;
    std::vector<Forward> forward;
    Backward backward; ///< empty: none
};

class Grouper {
public:
    explicit Grouper(Graph graph)
        : g_(std::move(graph)), count_(g_.ops.size()), removed_(count_, false), reads_(g_.values.size()),
          kept_(g_.values.size(), false), grouped_(g_.values.size(), false), b_(g_)
    {
        for (const Value& v : g_.values)
            b_.reserve(v.name);
        for (std::size_t i = 0; i < count_; ++i)
            for (std::size_t o = 0; o < g_.ops[i].operands.size(); ++o)
                reads_[g_.ops[i].operands[o].index()].push_back({i, o});
        for (const ValueId v : g_.outputs)
            kept_[v.index()] = true;
        for (const Carry& carry : g_.carries)
            kept_[carry.out.index()] = true;
        prologue_end_ = static_cast<std::size_t>(
            std::ranges::find_if(g_.ops, [](const Op& op) { return op.region != Region::prologue; }) -
            g_.ops.begin());
    }

    Graph run()
    {
        std::vector<WeightGroup> groups;
        for (std::vector<ValueId>& weights : candidates())
            if (std::optional<WeightGroup> group = complete(std::move(weights))) {
                for (const Forward& forward : group->forward)
                    mark(forward.parts, {&forward.products, &forward.biases});
                mark(group->backward.gradients, {&group->backward.products, &group->backward.sums});
                groups.push_back(std::move(*group));
            }
        for (const WeightGroup& group : groups)
            rewrite(group);
        if (!groups.empty())
            reorder();
        return std::move(g_);
    }

private:
    struct Read {
        std::size_t op, operand;
    };
    void mark(const std::vector<ValueId>& parts, const std::vector<const std::vector<std::size_t>*>& replaced)
    {
        for (const ValueId v : parts)
            grouped_[v.index()] = true;
        for (const auto* ops : replaced)
            for (const std::size_t i : *ops)
                removed_[i] = true;
    }

    const std::vector<Read>& reads(ValueId v) const { return reads_[v.index()]; }
    const TensorType& type(ValueId v) const { return g_[v].type; }

    /// A weight, or a bias, that can be packed once per step.
    bool is_packable(ValueId v) const
    {
        const Value& value = g_[v];
        const bool computed = value.role == Role::computed;
        return value.lifetime != Lifetime::microbatch && value.space == Space::device &&
               (computed ? g_[value.producer].region == Region::prologue : value.role == Role::parameter);
    }

    bool alike(const Op& a, const Op& b) const
    {
        return a.region == b.region && a.phase == b.phase && stage_of(g_, a) == stage_of(g_, b);
    }

    /// Sets of weights whose products read one X, in the order of these products.
    std::vector<std::vector<ValueId>> candidates() const
    {
        std::vector<std::vector<ValueId>> sets;
        std::vector<bool> seen(g_.values.size(), false);
        for (std::size_t i = 0; i < count_; ++i) {
            const Op& first = g_.ops[i];
            const std::optional<ProductDims> dims = dims_of_product(first);
            if (!dims || !is_packable(first.operands[1]) || seen[first.operands[1].index()])
                continue;
            std::vector<ValueId> weights;
            for (const Read& read : reads(first.operands[0])) {
                const Op& op = g_.ops[read.op];
                const std::optional<ProductDims> other = dims_of_product(op);
                const ValueId w = other ? op.operands[1] : ValueId();
                if (read.operand == 0 && other && other->common.size() == dims->common.size() &&
                    alike(first, op) && is_packable(w) && type(w).dtype == type(first.operands[1]).dtype &&
                    !seen[w.index()] && std::ranges::find(weights, w) == weights.end())
                    weights.push_back(w);
            }
            for (const ValueId w : weights)
                seen[w.index()] = true;
            if (weights.size() > 1)
                sets.push_back(std::move(weights));
        }
        return sets;
    }

    /// All products with these weights, if they can be replaced.
    std::optional<WeightGroup> complete(std::vector<ValueId> weights) const
    {
        WeightGroup group{std::move(weights), {}, {}};
        std::map<ValueId, Forward> by_operand; // X
        std::vector<ValueId> order;
        for (const ValueId w : group.weights)
            for (const Read& read : reads(w)) {
                const Op& op = g_.ops[read.op];
                if (op.region != Region::microbatch)
                    continue; // of a parameter: the update
                if (read.operand == 1 && dims_of_product(op)) {
                    Forward& forward = by_operand[op.operands[0]];
                    if (forward.products.empty())
                        order.push_back(op.operands[0]);
                    forward.products.push_back(read.op);
                } else if (read.operand == 1 && is_gradient_of_product(g_, op)) {
                    group.backward.products.push_back(read.op);
                } else {
                    return {};
                }
            }
        for (const ValueId x : order) {
            Forward& forward = by_operand[x];
            if (!complete(group.weights, forward))
                return {};
            group.forward.push_back(std::move(forward));
        }
        if (group.forward.empty() || (!group.backward.products.empty() && !complete(group)))
            return {};
        return group;
    }

    /// Whether every product is there, one per weight, and its result may be columns.
    bool complete(const std::vector<ValueId>& weights, Forward& forward) const
    {
        if (forward.products.size() != weights.size())
            return false;
        const Op& first = g_.ops[forward.products[0]];
        for (std::size_t i = 0; i < weights.size(); ++i) {
            const Op& op = g_.ops[forward.products[i]];
            if (op.operands[1] != weights[i] || !alike(first, op) ||
                type(op.results[0]).dtype != type(weights[i]).dtype)
                return false;
            ValueId part = op.results[0];
            if (const auto& uses = reads(part); uses.size() == 1 && !kept_[part.index()]) {
                const Op& bias = g_.ops[uses[0].op];
                const std::vector<std::string> columns = dims_of_product(op)->columns;
                if (adds_bias(bias) && uses[0].operand == 0 && alike(first, bias) &&
                    is_packable(bias.operands[1]) && type(bias.operands[1]).shape.size() == columns.size()) {
                    forward.biases.push_back(uses[0].op);
                    part = bias.results[0];
                }
            }
            forward.parts.push_back(part);
        }
        const i64 rows = rows_of(first);
        return (forward.biases.empty() || forward.biases.size() == weights.size()) &&
               may_be_columns(forward.parts, rows, false);
    }

    /// The rows of a product's result.
    i64 rows_of(const Op& op) const
    {
        const ProductDims dims = *dims_of_product(op);
        const Shape& shape = type(op.results[0]).shape;
        return element_count(
            Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dims.rows.size())));
    }

    /// Whether all readers of the parts, and with `producers` what computes them, accept columns of one
    /// buffer.
    bool may_be_columns(const std::vector<ValueId>& parts, i64 rows, bool producers) const
    {
        for (const ValueId v : parts) {
            if (rows == 0 || kept_[v.index()] || grouped_[v.index()] || g_[v].role != Role::computed ||
                g_[v].lifetime != Lifetime::microbatch || type(v).bytes() / rows % part_alignment != 0 ||
                std::ranges::count(parts, v) != 1)
                return false;
            const Op& by = g_[g_[v].producer];
            const auto at = static_cast<std::size_t>(std::ranges::find(by.results, v) - by.results.begin());
            if (producers && !writes_columns(g_, by, at, rows))
                return false;
            for (const Read& read : reads(v))
                if (!reads_columns(g_, g_.ops[read.op], read.operand, rows))
                    return false;
        }
        return true;
    }

    /// Finds the sum of the gradients of X.
    bool complete(WeightGroup& group) const
    {
        Backward& back = group.backward;
        if (back.products.size() != group.weights.size())
            return false;
        const Op& first = g_.ops[back.products[0]];
        std::vector<ValueId> terms;
        for (std::size_t i = 0; i < group.weights.size(); ++i) {
            const Op& op = g_.ops[back.products[i]];
            if (op.operands[1] != group.weights[i] || !alike(first, op) ||
                type(op.results[0]) != type(first.results[0]))
                return false;
            terms.push_back(op.results[0]);
            back.gradients.push_back(op.operands[0]);
        }
        while (terms.size() > 1) {
            const std::size_t sum = sum_of_two(terms);
            if (sum == count_ || !alike(first, g_.ops[sum]))
                return false;
            for (const ValueId v : g_.ops[sum].operands)
                std::erase(terms, v);
            terms.push_back(g_.ops[sum].results[0]);
            back.sums.push_back(sum);
        }
        back.sum = terms[0];
        const i64 rows = find_product_form(rule_of(g_, first))->m;
        return may_be_columns(back.gradients, rows, true);
    }

    /// An op that adds two of the terms, which nothing else reads; otherwise count_.
    std::size_t sum_of_two(const std::vector<ValueId>& terms) const
    {
        const auto is_term = [&](ValueId v) {
            return std::ranges::find(terms, v) != terms.end() && reads(v).size() == 1 && !kept_[v.index()];
        };
        for (const ValueId v : terms)
            if (is_term(v)) {
                const Op& op = g_.ops[reads(v)[0].op];
                if (adds_two(op) && is_term(op.operands[0]) && is_term(op.operands[1]))
                    return reads(v)[0].op;
            }
        return count_;
    }

    void rewrite(const WeightGroup& group)
    {
        const Op first = g_.ops[group.forward[0].products[0]];
        const std::size_t common = dims_of_product(first)->common.size();
        const ValueId weight = pack(group.weights, common, first);
        std::map<std::vector<ValueId>, ValueId> packed_biases;
        for (const Forward& forward : group.forward) {
            std::vector<ValueId> biases;
            for (const std::size_t i : forward.biases)
                biases.push_back(g_.ops[i].operands[1]);
            ValueId bias;
            if (!biases.empty()) {
                const auto [known, unknown] = packed_biases.try_emplace(biases);
                if (unknown)
                    known->second = pack(biases, 0, first);
                bias = known->second;
            }
            rewrite(forward, weight, bias);
        }
        if (!group.backward.products.empty())
            rewrite(group.backward, weight);
    }

    /// The rest of a name that several tensors share: "layers.0.attn" of "layers.0.attn.q".
    static std::string parent(const std::string& scope) { return scope.substr(0, scope.rfind('.')); }

    void set_where(const Op& op, Region region, Phase phase)
    {
        b_.where = {region, phase, op.block, parent(op.scope)};
    }

    /// The tensors, whose first `rows` dimensions are the same, as columns of one, in the prologue. Casts
    /// that nothing else reads are part of it.
    ValueId pack(const std::vector<ValueId>& tensors, std::size_t rows, const Op& of)
    {
        std::vector<ValueId> from = tensors;
        std::size_t place = 0; // after the last producer
        bool casts = true;
        for (const ValueId v : tensors) {
            const OpId producer = g_[v].producer;
            casts =
                casts && producer && is_own_cast(v) &&
                type(g_[producer].operands[0]).dtype == type(g_[g_[tensors[0]].producer].operands[0]).dtype;
            place = std::max(place, producer ? producer.index() + 1 : 0);
        }
        if (casts)
            for (ValueId& v : from) {
                removed_[g_[v].producer.index()] = true;
                v = g_[g_[v].producer].operands[0];
            }
        set_where(of, Region::prologue, Phase::forward);
        return insert_new(place > 0 ? place : prologue_end_,
                          packed_columns(g_, from, rows, type(tensors[0]).dtype),
                          g_[tensors[0]].name + ".group");
    }

    /// A cast whose result only products and sums read that are replaced.
    bool is_own_cast(ValueId v) const
    {
        const Op& op = g_[g_[v].producer];
        return casts(op) && op.region == Region::prologue && !kept_[v.index()] &&
               std::ranges::all_of(reads(v), [&](const Read& read) { return removed_[read.op]; });
    }

    void rewrite(const Forward& forward, ValueId weight, ValueId bias)
    {
        const std::size_t at = *std::ranges::min_element(forward.products);
        Op product = g_.ops[at];
        const ProductDims dims = *dims_of_product(product);
        std::vector<std::string> w = dims.common, c = dims.rows;
        const std::string n = name_for_columns(dims);
        w.push_back(n);
        c.push_back(n);
        set_where(product, product.region, product.phase);
        const std::string name = g_[forward.parts[0]].name + ".group";
        product.operands[1] = weight;
        product.attrs.edit().rule = Rule(Rule::Parts{{(*product.attrs->rule)->operands[0], {w}}, {{c}}});
        ValueId whole = insert_new(at, std::move(product), bias ? name + ".plain" : name);
        if (bias) {
            Op sum = g_.ops[forward.biases[0]];
            sum.operands = {whole, bias};
            sum.attrs.edit().rule = Rule(Rule::Parts{{{c}, {{n}}}, {{c}}});
            whole = insert_new(at, std::move(sum), name);
        }
        Op divided = divided_columns(g_, whole, forward.parts, dims.rows.size());
        divided.results = forward.parts;
        insert(at, std::move(divided));
    }

    void rewrite(const Backward& back, ValueId weight)
    {
        const std::size_t at = back.sums.back();
        Op product = g_.ops[back.products[0]];
        set_where(product, product.region, product.phase);
        // dX's dimensions are those of dY's rows, then those that the weight has in common.
        const std::size_t common = type(weight).shape.size() - 1, rows = type(back.sum).shape.size() - common;
        const ValueId whole =
            insert_new(at, joined_columns(g_, back.gradients, rows), g_[back.gradients[0]].name + ".group");
        Rule::Tensor dy, w, dx;
        for (std::size_t d = 0; d < rows; ++d)
            dy.dims.push_back(str("r", d));
        for (std::size_t d = 0; d < common; ++d)
            w.dims.push_back(str("k", d));
        dx.dims = dy.dims;
        dx.dims.insert(dx.dims.end(), w.dims.begin(), w.dims.end());
        dy.dims.emplace_back("n");
        w.dims.emplace_back("n");
        product.operands = {whole, weight};
        product.results = {back.sum};
        product.attrs.edit().rule = Rule(Rule::Parts{{dy, w}, {dx}});
        insert(at, std::move(product));
    }

    static std::string name_for_columns(const ProductDims& dims)
    {
        std::string name = "n";
        while (std::ranges::find(dims.rows, name) != dims.rows.end() ||
               std::ranges::find(dims.common, name) != dims.common.end())
            name += "n";
        return name;
    }

    /// Appends an op that goes before op `place`; returns its result.
    ValueId insert_new(std::size_t place, Op op, const std::string& name)
    {
        places_.push_back(place);
        return b_.op1(op.kind, std::move(op.operands), std::move(op.attrs), name);
    }
    /// The same for results that are there.
    void insert(std::size_t place, Op op)
    {
        op.region = b_.where.region;
        op.phase = b_.where.phase;
        op.block = b_.where.block;
        op.scope = b_.where.scope;
        places_.push_back(place);
        g_.ops.push_back(std::move(op));
    }

    /// Puts the new ops into their places, and drops those that they replace.
    void reorder()
    {
        std::vector<std::vector<std::size_t>> before(count_ + 1);
        for (std::size_t i = 0; i < places_.size(); ++i)
            before[places_[i]].push_back(count_ + i);
        std::vector<Op> ops;
        for (std::size_t i = 0; i <= count_; ++i) {
            // Of the first op of a microbatch: packs before the products of other groups.
            std::ranges::stable_sort(
                before[i], [&](std::size_t a, std::size_t b) { return g_.ops[a].region < g_.ops[b].region; });
            for (const std::size_t made : before[i])
                ops.push_back(std::move(g_.ops[made]));
            if (i < count_ && !removed_[i])
                ops.push_back(std::move(g_.ops[i]));
        }
        g_.ops = std::move(ops);
        drop_unproduced(g_);
    }

    Graph g_;
    std::size_t count_; ///< ops of the graph that is given
    std::size_t prologue_end_ = 0;
    std::vector<bool> removed_;
    std::vector<std::vector<Read>> reads_; ///< by value
    std::vector<bool> kept_;               ///< by value: an output or a carry
    std::vector<bool> grouped_;            ///< by value: columns of a whole
    std::vector<std::size_t> places_;      ///< of the new ops
    Builder b_;
};

} // namespace

Graph group_products(Graph graph) { return Grouper(std::move(graph)).run(); }

} // namespace trivium
