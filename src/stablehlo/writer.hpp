#pragma once
// Internal: StableHLO text as it is written, op by op, in MLIR's generic form.
#include "ir/graph.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace trivium {

/// A value of the text. `dtype` is empty for i1.
struct HloName {
    std::string name; ///< "%12"
    std::optional<DType> dtype;
    Shape shape{};
};

class HloWriter {
public:
    using Numbers = std::vector<i64>;

    explicit HloWriter(const Graph& graph) : graph_(graph) {}
    std::string text();

    // For the ops of a graph.

    const Graph& graph() const { return graph_; }
    [[noreturn]] void refuse(const Op& op, const std::string& reason) const;
    HloName operand(const Op& op, std::size_t i) const { return names_.at(op.operands[i]); }
    std::vector<HloName> operands(const Op& op) const;
    const TensorType& type(const Op& op, std::size_t i) const { return graph_[op.operands[i]].type; }
    const TensorType& result_type(const Op& op, std::size_t i = 0) const
    {
        return graph_[op.results[i]].type;
    }
    void give(const Op& op, HloName value, std::size_t result = 0);
    Numbers list(const Op& op, Attr attr) const;
    Numbers list_or(const Op& op, Attr attr, std::size_t length, i64 otherwise) const;

    // Each writes one op of stablehlo and returns its result.

    /// `name` without the dialect; `attributes`: "dimension = 1 : i64", `regions`: text with its parentheses.
    HloName op(const std::string& name, const std::vector<HloName>& operands, std::optional<DType> dtype,
               const Shape& shape, const std::string& attributes = "", const std::string& region = "");
    std::vector<HloName> ops(const std::string& name, const std::vector<HloName>& operands,
                             const std::vector<HloName>& results, const std::string& attributes,
                             const std::string& region = "");
    /// Of operands of one type, with a result of that type.
    HloName same(const std::string& name, const std::vector<HloName>& operands)
    {
        return op(name, operands, operands[0].dtype, operands[0].shape);
    }
    HloName constant(DType dtype, const Shape& shape, double value);
    HloName like(const HloName& x, double value) { return constant(*x.dtype, x.shape, value); }
    HloName cast(const HloName& x, std::optional<DType> dtype);
    HloName reshape(const HloName& x, const Shape& shape);
    HloName transpose(const HloName& x, const Numbers& dims);
    HloName broadcast(const HloName& x, const Numbers& dims, const Shape& shape);
    HloName reduce(const HloName& x, const Numbers& dims, Combine combine);
    /// i1
    HloName compare(const HloName& a, const HloName& b, const std::string& direction);
    HloName select(const HloName& which, const HloName& yes, const HloName& no);
    /// "({ … })" that combines two scalars.
    std::string region(Combine combine, DType dtype);
    /// The number that changes nothing.
    HloName identity(Combine combine, DType dtype);

    /// "array<i64: 1, 2>" and "[1, 2]"
    static std::string array(const Numbers& numbers);
    static std::string bracketed(const Numbers& numbers);
    /// low and high of each dimension: "dense<[[0, 1]]> : tensor<1x2xi64>"
    static std::string padding(const Numbers& low, const Numbers& high);
    std::string fresh() { return "%" + std::to_string(next_++); }
    static std::string type_text(std::optional<DType> dtype, const Shape& shape);

private:
    void line(const std::string& text, const std::string& signature);
    void write(const Op& op);
    std::string sharding_of(const Sharding& sharding, std::size_t rank, const std::string& place) const;

    struct Line {
        std::string text, attributes, signature;
    };

    const Graph& graph_;
    std::vector<Line> lines_;
    std::unordered_map<ValueId, HloName> names_;
    i64 next_ = 0;
};

using HloExporter = void (*)(HloWriter&, const Op&);
/// How the op is written, or null.
HloExporter general_exporter(OpKind kind);
HloExporter window_exporter(OpKind kind);
HloExporter model_exporter(OpKind kind);

} // namespace trivium
