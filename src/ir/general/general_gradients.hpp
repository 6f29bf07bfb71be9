#pragma once
// Gradients of general tensor ops, made of other ops of the table (OpInfo::gradient).
#include "ir/ops/op_table.hpp"

namespace trivium::gradients {

void none(Tape& tape);  ///< zero almost everywhere: accumulates nothing
void unary(Tape& tape); ///< each function of one number
void subtract(Tape& tape);
void multiply(Tape& tape);
void divide(Tape& tape);
void extremum(Tape& tape); ///< maximum or minimum; equal operands get one half each
void power(Tape& tape);
void remainder(Tape& tape);
void select(Tape& tape);

void reduce(Tape& tape); ///< equal extrema share the gradient
void broadcast(Tape& tape);
void transpose(Tape& tape);
void reshape(Tape& tape);
void slice(Tape& tape);
void pad(Tape& tape);
void concatenate(Tape& tape);
void reverse(Tape& tape);
void dynamic_slice(Tape& tape);
void dynamic_update_slice(Tape& tape);
void gather(Tape& tape);
void scatter(Tape& tape); ///< throws UserError unless combine="sum"
void sort(Tape& tape);
void top_k(Tape& tape);
void cumsum(Tape& tape);
void convolution(Tape& tape);
void pool(Tape& tape); ///< throws UserError if combine="product"

/// Accumulates the gradient of operand `i` of a product: the product of `operands` with the rule of `attrs`
/// (product_gradient_rule), broadcast along the dimensions that only operand `i` has.
void factor_of_product(Tape& tape, int i, const std::vector<ValueId>& operands, Attributes attrs);

} // namespace trivium::gradients
