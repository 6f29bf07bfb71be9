#pragma once
// The steps of random programs: each appends a few ops to a graph.
#include "ir/builder.hpp"
#include "random_program.hpp"
#include "shardings.hpp"

namespace trivium {

class RandomSteps {
public:
    /// All must outlive it.
    RandomSteps(Draw& draw, Graph& graph, const RandomConfig& config);

    void step();

private:
    using Numbers = std::vector<i64>;
    struct Known {
        ValueId id;
        bool exact = true; ///< no sums of fractions: rounding does not depend on the partition
    };

    // Values.
    Shape shape(ValueId v) const { return graph_[v].type.shape; }
    i64 upto(i64 least, i64 most) { return least + below(draw_, most - least + 1); }
    bool one_in(i64 n) { return below(draw_, n) == 0; }
    /// A known value of this type and at least so many dimensions.
    Known any(DType type = DType::f64, std::size_t least = 1);
    /// One that is exact.
    Known exact(DType type = DType::f64, std::size_t least = 1);
    Known either() { return any(one_in(4) ? DType::i32 : DType::f64); } ///< for ops that only move elements
    i64 dim(ValueId v) { return below(draw_, static_cast<i64>(shape(v).size())); }
    ValueId keep(ValueId v, bool exact);
    ValueId given(const char* name, DType type, const Shape& shape, Role role);
    ValueId op(OpKind kind, std::vector<ValueId> operands, Attributes attrs = {});
    ValueId constant(ValueId like, double value);
    /// A bounded function keeps numbers near 1; of integers the remainder.
    ValueId tame(ValueId v);
    /// 1 + v², which may divide.
    ValueId positive(ValueId v);
    /// `x` in the given shape: padded or cut.
    ValueId fitted(ValueId x, const Shape& to);

    // Steps.
    void unary();
    void binary();
    void integers();
    void choose();
    void cast();
    void create();
    void reduce();
    void product();
    void broadcast();
    void transpose();
    void reshape();
    void slice();
    void pad();
    void concatenate();
    void reverse();
    void cumsum();
    void sort();
    void top_k();
    void gather_rows();
    void gather_batch();
    void dynamic_slice();
    void dynamic_update();
    void convolution();
    void pool();
    void reshard();
    void region();

    Attributes manual_over(ValueId v, const std::vector<std::string>& axes, bool divides);
    ValueId start(); ///< i32[]
    void gather(Known x, ValueId ids, const Attributes& attrs, const Numbers& sizes);
    void scatter_like(ValueId x, ValueId ids, ValueId updates, Attributes attrs, bool exact);

    Draw& draw_;
    Graph& graph_;
    Builder b_;
    bool backward_, regions_; ///< only ops with gradients; also manual regions
    bool in_region_ = false;
    i64 most_elements_;
    std::vector<Known> known_;
};

} // namespace trivium
