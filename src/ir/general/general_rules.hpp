#pragma once
// The factors of general tensor ops, which follow from their attributes and the operands' shapes
// (OpInfo::factors), and the attributes of a rank's op (local_*, OpInfo::localize).
//
// Conventions of the attributes are those of StableHLO (openxla/stablehlo, docs/spec.md). Every function
// throws UserError at the op's place if an attribute does not fit.
#include "ir/ops/op_table.hpp"

namespace trivium {
class OpView;
}

namespace trivium::general {

// Tensors without operands.
FactorRule iota(const Graph& graph, const Op& op); ///< also `constant`
void local_iota(Attributes& attrs, const LocalPart& part);

// Shapes.
FactorRule reduce(const Graph& graph, const Op& op);
FactorRule broadcast(const Graph& graph, const Op& op);
FactorRule transpose(const Graph& graph, const Op& op);
/// Common factors of both shapes, by greatest common divisors from the major side.
FactorRule reshape(const Graph& graph, const Op& op);
/// Of broadcast and reshape: sets `shape` to that of the rank's result.
void local_shape(Attributes& attrs, const LocalPart& part);

// Windows.
FactorRule slice(const Graph& graph, const Op& op);
void local_slice(Attributes& attrs, const LocalPart& part);
FactorRule pad(const Graph& graph, const Op& op);
void local_pad(Attributes& attrs, const LocalPart& part);
FactorRule concatenate(const Graph& graph, const Op& op);
FactorRule reverse(const Graph& graph, const Op& op);
FactorRule convolution(const Graph& graph, const Op& op);
FactorRule convolution_grad_x(const Graph& graph, const Op& op);
FactorRule convolution_grad_w(const Graph& graph, const Op& op);
void local_convolution(Attributes& attrs, const LocalPart& part);
void local_convolution_grad_x(Attributes& attrs, const LocalPart& part);
void local_convolution_grad_w(Attributes& attrs, const LocalPart& part);
FactorRule pool(const Graph& graph, const Op& op);
void local_pool(Attributes& attrs, const LocalPart& part);
FactorRule pool_grad(const Graph& graph, const Op& op);
void local_pool_grad(Attributes& attrs, const LocalPart& part);

// Indices and orders.
FactorRule dynamic_slice(const Graph& graph, const Op& op);
void local_dynamic_slice(Attributes& attrs, const LocalPart& part);
FactorRule dynamic_update_slice(const Graph& graph, const Op& op);
void local_dynamic_update_slice(Attributes& attrs, const LocalPart& part);
FactorRule gather(const Graph& graph, const Op& op);
void local_gather(Attributes& attrs, const LocalPart& part);
FactorRule scatter(const Graph& graph, const Op& op);
void local_scatter(Attributes& attrs, const LocalPart& part);
FactorRule sort(const Graph& graph, const Op& op);
FactorRule top_k(const Graph& graph, const Op& op);
FactorRule cumsum(const Graph& graph, const Op& op);

// Communication and manual regions.
FactorRule exchange(const Graph& graph, const Op& op);
FactorRule local(const Graph& graph, const Op& op);
FactorRule global(const Graph& graph, const Op& op);

/// The window of a convolution or a pooling along one dimension. Distances: `dilation` within a window,
/// `stride` between windows, `base` between inputs. Padding: low, high.
struct WindowDim {
    i64 size = 1, stride = 1, low = 0, high = 0, dilation = 1, base = 1;

    i64 reach() const { return (size - 1) * dilation; }
    /// Windows over an input of `extent`; 0 if none fits.
    i64 count(i64 extent) const;
    /// The same window on a rank that computes the outputs `out` from the inputs `in`.
    WindowDim on(const IndexRange& out, const IndexRange& in) const;
};
/// The window along each dimension, from its extents `sizes` and the op's attributes.
std::vector<WindowDim> window_dims(const OpView& op, const std::vector<i64>& sizes);

} // namespace trivium::general
