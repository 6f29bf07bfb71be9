#pragma once
// For OpInfo::factors: an op's attributes with their checks, and a builder of factor rules.
#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>

namespace trivium {

/// `graph` and `op` must outlive it. Its checks throw UserError at the op's place.
class OpView {
public:
    OpView(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}
    /// Of an op that has so many operands.
    OpView(const Graph& graph, const Op& op, std::size_t operands) : OpView(graph, op)
    {
        require_operands(operands);
    }

    const Op& op() const { return op_; }
    std::string place() const { return place_of(graph_, op_); }
    const Shape& shape(std::size_t operand) const { return graph_[op_.operands[operand]].type.shape; }
    /// Whether the graph is that of one rank, whose op may compute a shard.
    bool is_part() const { return !graph_.at.empty(); }
    /// Without the accumulator.
    std::size_t operands() const { return op_.operands.size() - (op_.accumulate ? 1 : 0); }

    [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const
    {
        throw UserError({place(), problem, "", remedy});
    }
    void require(bool holds, const std::string& problem, const std::string& remedy) const
    {
        if (!holds)
            fail(problem, remedy);
    }
    void require_operands(std::size_t count) const;

    /// The list, which must be there, and have `length` entries if that is given.
    const std::vector<i64>& list(Attr attr, std::optional<std::size_t> length = {}) const;
    /// The list, of `length` entries, or `length` times `otherwise` if it is missing.
    std::vector<i64> list_or(Attr attr, std::size_t length, i64 otherwise) const;
    std::vector<i64> list_or_empty(Attr attr) const;
    i64 number_or(Attr attr, i64 otherwise) const;
    /// A list of different dimensions of a tensor with `rank` dimensions; empty if it is missing.
    std::vector<std::size_t> dims(Attr attr, std::size_t rank) const;
    /// A list as a shape: extents are positive, or, in a rank's graph, 0, and within limits.hpp.
    const Shape& extents(Attr attr) const;

private:
    const Graph& graph_;
    const Op& op_;
};

inline bool lists(const std::vector<std::size_t>& dims, std::size_t d)
{
    return std::find(dims.begin(), dims.end(), d) != dims.end();
}

/// Builds the factor rule of an op: the caller sets all of rule.operands (at first -1) and adds the results.
/// Functions return the index of a factor.
class RuleMaker {
public:
    explicit RuleMaker(const OpView& view)
    {
        rule.operands.resize(view.operands());
        for (std::size_t i = 0; i < view.operands(); ++i)
            rule.operands[i].assign(view.shape(i).size(), -1);
    }

    int factor(i64 size, FactorKind kind = FactorKind::parallel, bool blocked = false)
    {
        return add({str("f", rule.factors.size()), kind, size, blocked});
    }
    /// A dimension made of several factors, major first; of one or none: that factor, or one of size 1.
    int product(std::vector<int> parts);
    int window(const Window& window, i64 extent)
    {
        Factor made{str("f", rule.factors.size()), FactorKind::parallel, extent};
        made.window = window;
        return add(std::move(made));
    }
    int add(Factor factor)
    {
        rule.factors.push_back(std::move(factor));
        return static_cast<int>(rule.factors.size()) - 1;
    }
    void result(FactorList dims, Combine combine = Combine::sum)
    {
        rule.results.push_back(std::move(dims));
        rule.combine.push_back(combine);
    }
    /// The rule, with this last result.
    FactorRule with_result(FactorList dims, Combine combine = Combine::sum)
    {
        result(std::move(dims), combine);
        return std::move(rule);
    }

    FactorRule rule;
};

} // namespace trivium
