#pragma once
// Internal: one import of a function, and the tools of the handlers of ops (import_*.cpp).
#include "base/check.hpp"
#include "ir/builder.hpp"
#include "stablehlo/fold.hpp"
#include "stablehlo/import.hpp"
#include "stablehlo/mesh_of_shardings.hpp"

#include <functional>
#include <optional>
#include <regex>
#include <unordered_map>
#include <unordered_set>

namespace trivium {

/// A value of the text: a constant, a value of the graph, or both.
struct HloValue {
    HloType type;
    std::optional<HloLiteral> known{};
    ValueId id{};
    i64 iota_dim = -1; ///< it counts along this dimension
    i64 rank_step = 0; ///< if not 0, it is the number of the rank over this
    i64 most = -1; ///< of integers from 0 on that are not known: none is larger; -1: there is no such bound
};

class HloImporter {
public:
    using K = OpKind;
    using Numbers = std::vector<i64>;

    HloImporter(const HloModule& module, const std::string& file, const HloImport& how);
    HloGraph run();

    // For handlers. `op` is the op that is read; errors name it.

    [[noreturn]] void refuse(const HloOp& op, const std::string& reason,
                             const std::string& remedy = "") const;
    std::string place(const HloOp& op) const;
    /// What is between < and > of #stablehlo.gather<…>, a list of attributes.
    HloAttribute inner_dictionary(const HloOp& op, const HloAttribute& raw) const;
    void require(bool holds, const HloOp& op, const std::string& reason) const
    {
        if (!holds)
            refuse(op, reason);
    }
    const HloValue& operand(const HloOp& op, std::size_t i) const;
    std::vector<HloValue> operands(const HloOp& op) const;
    const HloType& type(const HloOp& op, std::size_t i) const { return operand(op, i).type; }
    const Shape& shape(const HloOp& op, std::size_t i) const { return operand(op, i).type.shape; }
    const HloType& result_type(const HloOp& op, std::size_t i = 0) const;
    /// The operand as a value of the graph.
    ValueId value(const HloOp& op, std::size_t i) { return value_of(operand(op, i), op); }
    ValueId value_of(const HloValue& value, const HloOp& op);
    std::vector<ValueId> values(const HloOp& op); ///< of all operands
    void give(const HloOp& op, ValueId id, std::size_t result = 0, i64 iota_dim = -1);
    void give(const HloOp& op, HloValue value, std::size_t result = 0);
    /// The value that result 0 was given.
    HloValue& given(const HloOp& op) { return scope_->values.at(op.results[0]); }
    /// The one scalar integer that a constant operand is, or nothing.
    std::optional<i64> known_int(const HloOp& op, std::size_t i) const;

    DType dtype(const HloType& type, const HloOp& op) const;
    Shape shape_of(ValueId id) const { return graph_[id].type.shape; }
    ValueId emit(const HloOp& op, K kind, const std::vector<ValueId>& operands, Attributes attrs = {});
    std::vector<ValueId> emit_all(const HloOp& op, K kind, const std::vector<ValueId>& operands,
                                  Attributes attrs = {});
    ValueId constant(const HloOp& op, DType dtype, const Shape& shape, double value);
    ValueId constant_like(const HloOp& op, ValueId like, double value);
    ValueId cast(const HloOp& op, ValueId x, DType dtype);
    ValueId reshaped(const HloOp& op, ValueId x, const Shape& shape);
    ValueId transposed(const HloOp& op, ValueId x, const Numbers& dims);
    ValueId spread(const HloOp& op, ValueId x, const Numbers& dims, const Shape& shape);
    ValueId compared(const HloOp& op, ValueId a, ValueId b, const char* direction);

    /// A list attribute, under its pretty or its generic name; empty if it is missing.
    Numbers list(const HloOp& op, const char* name, const char* other = nullptr) const;
    Numbers list_or(const HloOp& op, const char* name, std::size_t length, i64 otherwise) const
    {
        return list_or(op, op.attributes.find(name), name, length, otherwise);
    }
    Numbers list_or(const HloOp& op, const HloAttribute* found, const char* name, std::size_t length,
                    i64 otherwise) const;

    const HloRegion& region(const HloOp& op, std::size_t i) const;
    /// The results of a region with these arguments; its ops are added to the graph. Values outside are
    /// visible.
    std::vector<HloValue> run_region(const HloOp& op, const HloRegion& region,
                                     std::vector<HloValue> arguments);
    std::vector<HloValue> call(const HloOp& op, const std::string& name, std::vector<HloValue> arguments);
    /// What a region of scalars does with its two arguments: "add", "maximum", …, or "second" if it returns
    /// the second; "" if it is something else.
    std::string simple_region(const HloOp& op, std::size_t i) const;
    /// A constant of the text that is visible here.
    const HloValue* find(const std::string& name) const;

    /// In a manual computation over `axes`, in addition to those around it; returns the axes before.
    std::vector<std::string> enter_manual(const HloOp& op, const std::vector<std::string>& axes);
    void leave_manual(std::vector<std::string> before) { manual_ = std::move(before); }
    /// Refuses `op` unless it is in a manual computation over `axes`.
    void require_manual(const HloOp& op, const std::vector<std::string>& axes) const;

    Graph& graph() { return graph_; }
    const HloMesh& mesh() const { return mesh_; }

private:
    struct Scope {
        Scope* outer = nullptr;
        std::unordered_map<std::string, HloValue> values{};
    };

    void add_argument(const HloFunction& main, std::size_t i);
    void add_output(const HloFunction& main, std::size_t i, const HloValue& value, const HloOp& op);
    std::vector<HloValue> run_ops(const HloOp* caller, const std::vector<HloOp>& ops);
    void visit(const HloOp& op);
    void annotate(const HloOp& op);
    ValueId literal_value(const HloLiteral& literal, const HloOp& op);
    ValueId contents_value(const HloLiteral& literal, const HloOp& op);

    const HloModule& module_;
    const std::string& file_;
    const HloImport& how_;
    std::regex parameters_; ///< of HloImport
    HloGraph made_;
    Graph& graph_ = made_.graph;
    Builder builder_;
    HloMesh mesh_;
    Scope* scope_ = nullptr;
    std::unordered_map<std::string, const HloFunction*> functions_;
    std::unordered_set<std::string> names_; ///< of arguments
    std::size_t visited_ = 0;               ///< ops that were read, each time
    int depth_ = 0;                         ///< of calls
    std::vector<std::string> manual_{};     ///< axes of the manual computations around the current op
};

/// Its message without line ends.
std::string on_one_line(const UserError& error);

/// Adds what `op` computes to the graph.
using HloHandler = void (*)(HloImporter&, const HloOp&);
using HloHandlers = std::unordered_map<std::string_view, HloHandler>;

/// The handlers of a file, by name without the dialect.
void add_pointwise(HloHandlers& handlers);
void add_integers(HloHandlers& handlers);
void add_shapes(HloHandlers& handlers);
void add_contractions(HloHandlers& handlers);
void add_windows(HloHandlers& handlers);
void add_indices(HloHandlers& handlers);
void add_orders(HloHandlers& handlers);
void add_control(HloHandlers& handlers);
void add_manual(HloHandlers& handlers);

/// In a manual computation: whether `op` takes the index along axes of the mesh from the number of a rank,
/// and then gives that.
bool give_axis_index(HloImporter& i, const HloOp& op, bool remainder);

} // namespace trivium
