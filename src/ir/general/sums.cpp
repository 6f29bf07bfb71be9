#include "ir/general/sums.hpp"

#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

using A = Attr;
using K = OpKind;
using Numbers = std::vector<i64>;

class Sums {
public:
    Sums(Builder& b, const Numbers& dims, const Shape& shape) : b_(b), dims_(dims)
    {
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (std::ranges::find(dims, static_cast<i64>(d)) == dims.end())
                kept_.push_back(static_cast<i64>(d));
            else
                count_ *= shape[d];
    }

    ValueId of(ValueId v)
    {
        if (const auto made = made_.find(v); made != made_.end())
            return made->second;
        ValueId sum = known(v);
        if (const ValueId factor = factor_of(v)) {
            sum = b_.op1(K::affine, {factor}, {.alpha = static_cast<double>(count_)});
        } else if (!sum && summed_for(v) == v) {
            sum = b_.op1(K::reduce, {v}, {.combine = Combine::sum, .lists = {{A::dims, dims_}}});
        } else if (!sum) {
            const Op op = *producer(v);
            const std::vector<ValueId> parts = parts_of(v);
            std::vector<ValueId> sums;
            for (const ValueId part : parts)
                sums.push_back(of(part));
            if (parts.size() < op.operands.size())
                sums.push_back(factor_of(op.operands[parts[0] == op.operands[0] ? 1 : 0]));
            sum = b_.op1(op.kind, sums, op.attrs);
        }
        return made_[v] = sum;
    }

private:
    static constexpr int deepest = 16;
    static constexpr std::size_t near = 64; ///< ops behind a value in which its sum is looked for

    const Op* producer(ValueId v) const
    {
        const OpId id = b_.graph()[v].producer;
        return id ? &b_.graph()[id] : nullptr;
    }

    /// What is repeated along the dimensions to make `v`, in the order of the others; or nothing.
    ValueId factor_of(ValueId v) const
    {
        const Op* op = producer(v);
        if (!op || op->kind != K::broadcast || *op->attrs->lists.find(A::dims) != kept_)
            return {};
        const Shape &whole = b_.graph()[v].type.shape, &own = b_.graph()[op->operands[0]].type.shape;
        for (std::size_t k = 0; k < kept_.size(); ++k)
            if (own[k] != whole[static_cast<std::size_t>(kept_[k])])
                return {};
        return op->operands[0];
    }

    /// The values whose sums make that of `v`; none: it is itself summed.
    std::vector<ValueId> parts_of(ValueId v) const
    {
        const Op* op = producer(v);
        if (!op || op->accumulate)
            return {};
        if (op->kind == K::multiply) {
            for (const int i : {0, 1})
                if (factor_of(op->operands[static_cast<std::size_t>(1 - i)]))
                    return {op->operands[static_cast<std::size_t>(i)]};
            return {};
        }
        const bool sums = op->kind == K::add || op->kind == K::subtract || op->kind == K::negate ||
                          (op->kind == K::affine && op->attrs->beta.value_or(0) == 0);
        return sums ? op->operands : std::vector<ValueId>{};
    }

    ValueId known(ValueId v) const
    {
        const OpId id = b_.graph()[v].producer;
        const std::vector<Op>& ops = b_.graph().ops;
        const std::size_t begin = id ? id.index() + 1 : 0, end = std::min(ops.size(), begin + near);
        for (std::size_t i = begin; i < end; ++i)
            if (const Op& op = ops[i]; op.kind == K::reduce && op.operands[0] == v &&
                                       op.attrs->combine == Combine::sum &&
                                       *op.attrs->lists.find(A::dims) == dims_)
                return op.results[0];
        return {};
    }

    /// The value that is summed for the sum of `v`; none if known sums are enough.
    ValueId summed_for(ValueId v, int depth = 0)
    {
        if (const auto found = summed_.find(v); found != summed_.end())
            return found->second;
        ValueId one;
        if (!factor_of(v) && !known(v)) {
            const std::vector<ValueId> parts = depth < deepest ? parts_of(v) : std::vector<ValueId>{};
            if (parts.empty())
                one = v;
            for (const ValueId part : parts)
                if (const ValueId other = summed_for(part, depth + 1))
                    one = one && one != other ? v : other;
        }
        return summed_[v] = one;
    }

    Builder& b_;
    const Numbers& dims_;
    Numbers kept_;
    i64 count_ = 1;
    std::map<ValueId, ValueId> made_, summed_;
};

} // namespace

ValueId sum_over(Builder& b, ValueId v, const Numbers& dims)
{
    return Sums(b, dims, b.graph()[v].type.shape).of(v);
}

} // namespace trivium
