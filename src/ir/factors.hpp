#pragma once
// Factors: the einsum-like rule of an op, from which its result shapes follow and, later, its sharding.
//
// A rule names a factor for each dimension of each operand and result:
//
//     "b s d, d f -> b s f"           a product: d is contracted
//     "* d, d -> * d, * | d"          rms_norm: `*` stands for any number of leading dimensions, and the
//                                     factors after the bar need replication (a rank must see all of d)
//     "v d, * -> * d | v?"            embedding: v is indexed, a rank may hold a part and give zero for the
//     rest
//     "* v, * -> *:lse, * | v?"       a result's combiner over cut factors: sum unless another is named
//     "., * -> ."                     `.` is a scalar
//
// A factor that stands in operands but in no result is reduced. One that stands only in results takes its
// size from the op's attribute of the same name. (Shardy's factors: openxla/shardy,
// docs/sharding_representation.)
#include "ir/type.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace trivium {

enum class FactorKind { parallel, reduced, replicated, indexed };

struct Factor {
    std::string name;
    FactorKind kind = FactorKind::parallel;
    i64 size = 0;
};

using FactorList = std::vector<int>; ///< a factor's index per dimension

struct FactorRule {
    std::vector<Factor> factors;
    std::vector<FactorList> operands;
    std::vector<FactorList> results;
    std::vector<std::string> combine; ///< per result: "sum" or another combiner of partial values

    Shape shape_of(const FactorList& dims) const;
    int find(std::string_view name) const; ///< index, or -1
};

/// A size for a factor that no operand has.
using FactorSizes = std::vector<std::pair<std::string, i64>>;

/// The rule `text` applied to operands of these shapes. Throws UserError, placed at `place`, where an
/// operand's rank does not fit, one factor has two sizes, or a result-only factor has none.
/// With `variadic`, the last operand's pattern repeats for any further operands.
FactorRule make_rule(std::string_view text, const std::vector<Shape>& operands, const FactorSizes& sizes,
                     const std::string& place, bool variadic = false);

/// The rule of two ops in one, where the second reads the first's only result as its operand `through`: the
/// first's operands and the second's others; the second's results and, with `keep`, what went through.
std::string joined_rule(const FactorRule& first, const FactorRule& second, std::size_t through, bool keep);

/// Swaps the parts of a two-operand rule: which = 0 gives "C, B -> A", which = 1 gives "A, C -> B"
/// of "A, B -> C": the rules of a product's two gradients.
std::string product_gradient_rule(std::string_view text, int which);

} // namespace trivium
