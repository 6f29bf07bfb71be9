#pragma once
// Factors: the einsum-like rule of an op, which determines its result shapes and its sharding.
//
// A rule names a factor for each dimension of each operand and result:
//
//     "b s d, d f -> b s f"           a product: d is contracted
//     "* d, d -> * d, * | d"          rms_norm: `*` stands for any number of leading dimensions; the factors
//                                     after the bar are replicated (a rank must have all of d)
//     "v d, * -> * d | v?"            embedding: v is indexed: a rank may hold a shard and return zero for
//                                     indices outside it
//     "* v, * -> *:lse, * | v?"       lse: how ranks combine partial results (by default: sum)
//     "., * -> ."                     `.` is a scalar
//
// A factor that only operands have is reduced. One that only results have takes its size from the op's
// attributes. (Shardy's factors: openxla/shardy, docs/sharding_representation.)
#include "ir/mesh.hpp"
#include "ir/type.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trivium {

/// What sharding a factor means. parallel: results are sharded. reduced: results are partial. replicated: it
/// is not allowed, a rank needs all of it. indexed: a rank's op knows the first index of its shard.
enum class FactorKind { parallel, reduced, replicated, indexed };

/// A factor rule. Immutable and cheap to copy.
class Rule {
public:
    /// One operand or result: a factor's name per dimension, "*" at most once.
    struct Tensor {
        std::vector<std::string> dims;
        Combine combine = Combine::sum; ///< of a result
        bool operator==(const Tensor&) const = default;
    };
    struct Parts {
        std::vector<Tensor> operands, results;
        std::vector<std::string> replicated{}, indexed{};
        bool operator==(const Parts&) const = default;
    };
    /// Parts whose names are resolved to numbers once, because a rule is applied to shapes after each pass.
    struct Form : Parts {
        explicit Form(Parts parts);
        Form(const Form&) = delete; // `index` views names in its own operands and results

        static constexpr int star = -1;
        struct Dims {
            std::vector<int> names{}; ///< per dimension an index into `names`, or `star`
            int stars = 0;
            int twice = star; ///< a name that the tensor has twice; star: none
        };
        std::vector<std::string> names{}; ///< of factors, in the order in which tensors have them
        std::vector<FactorKind> kinds{};  ///< by name
        std::unordered_map<std::string_view, int> index{};
        int before_star = 0; ///< names before the first `*`
        FactorKind star_kind = FactorKind::parallel;
        std::vector<Dims> operand_dims{}, result_dims{};
    };

    /// Throws UserError at `place` if the text is not a rule.
    Rule(std::string_view text, const std::string& place);
    template <class Text>
    requires std::convertible_to<const Text&, std::string_view> Rule(const Text& text)
        : Rule(text, "a factor rule")
    {
    }
    explicit Rule(Parts parts) : form_(std::make_shared<const Form>(std::move(parts))) {}

    const Parts* operator->() const { return form_.get(); }
    const Form& form() const { return *form_; }
    friend bool operator==(const Rule& a, const Rule& b)
    {
        return a.form_ == b.form_ || static_cast<const Parts&>(*a.form_) == *b.form_;
    }

private:
    std::shared_ptr<const Form> form_;
};

/// "b s d, d f -> b s f", which parses to the same rule.
std::string to_text(const Rule& rule);

struct FactorRule;
/// The rule of an op that fuses `first` and `second`; `second` reads the only result of `first` as its
/// operand `through`. Operands: those of `first`, then the other operands of `second`. Results: those of
/// `second` and, with `keep`, the intermediate value.
Rule joined_rule(const FactorRule& first, const FactorRule& second, std::size_t through, bool keep);

/// The rule of a gradient of a product "A, B -> C": "C, B -> A" for operand 0, "A, C -> B" for operand 1.
/// Throws InternalError if `product` does not have two operands and one result.
Rule product_gradient_rule(const Rule& product, int operand);

/// How a dimension of an operand follows from a factor of the result: index i of the factor reads the indices
/// (i stride - low + t) / base of the dimension, for t from 0 to `reach` inclusive, where they are whole
/// numbers within the dimension. The operands of slice, pad, reverse, concatenate, convolution and pooling
/// have windows.
struct Window {
    int of = -1; ///< the factor
    i64 stride = 1, base = 1, low = 0, reach = 0;
    bool operator==(const Window&) const = default;
};

/// A factor, or a composed dimension: a product of factors (`parts`, major first) or a `window` of one.
struct Factor {
    std::string name;
    FactorKind kind = FactorKind::parallel;
    i64 size = 0;
    bool blocked = false; ///< propagation does not carry axes along it
    std::vector<int> parts{};
    std::optional<Window> window{};
    /// At the boundary of a manual region: the axes that shard this factor, and no others. Empty: any axes.
    std::vector<std::string> pinned{};

    bool composed() const { return !parts.empty() || window.has_value(); }
};

/// The indices that a window reads for its factor's indices `part`, clipped to a dimension of `extent`.
IndexRange window_of(const Window& window, const IndexRange& part, i64 extent);

using FactorList = std::vector<int>; ///< per dimension of a tensor, an index into FactorRule::factors

/// A rule applied to the shapes of an op's operands.
struct FactorRule {
    std::vector<Factor> factors;
    std::vector<FactorList> operands;
    std::vector<FactorList> results;
    std::vector<Combine> combine; ///< per result

    Shape shape_of(const FactorList& dims) const;
    int find(std::string_view name) const; ///< index of the factor, or -1
    const Factor& operator[](int factor) const { return factors[static_cast<std::size_t>(factor)]; }
    /// The factors of an entry of a FactorList, major first: itself, its `parts`, or the factor of its
    /// window.
    /// Valid as long as this rule and `dim`.
    std::span<const int> parts_of(const int& dim) const;
    std::span<const int> parts_of(int&& dim) const = delete;
};

/// A factor's size, or its first index on a rank.
struct FactorSize {
    std::string factor;
    i64 size = 0;
    bool operator==(const FactorSize&) const = default;
};
using FactorSizes = std::vector<FactorSize>;

/// `rule` applied to operands of these shapes; `sizes` lists the factors that no operand has. With
/// `variadic`, the last operand's pattern stands for zero or more operands. Throws UserError at `place`,
/// which is called only then, if the number of operands or of an operand's dimensions does not fit, a factor
/// has two sizes, or a result-only factor has none.
FactorRule make_rule(const Rule& rule, const std::vector<const Shape*>& operands, const FactorSizes& sizes,
                     const std::function<std::string()>& place, bool variadic = false);

} // namespace trivium
