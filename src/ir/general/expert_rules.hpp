#pragma once
// The factors of ops of mixtures of experts (ir/expert_ops.inc). Every function throws UserError at the op's
// place if shapes and attributes do not fit.
#include "ir/ops/op_table.hpp"

namespace trivium::general {

/// Of ops on logits: their type is that of sums.
void check_logits(const Graph& graph, const Op& op, const FactorRule& rule);
/// Of those with the attribute `routing`: its groups of experts, and that they have the slots.
void check_routing(const Graph& graph, const Op& op, const FactorRule& rule);

// Between tokens [b s d] and rows [q m d] of their groups: q = (B S) with spread="B S", b = (B b'), s = (S
// s').
FactorRule dispatch(const Graph& graph, const Op& op);
FactorRule combine(const Graph& graph, const Op& op);
FactorRule combine_grad_rows(const Graph& graph, const Op& op);
FactorRule combine_grad_weights(const Graph& graph, const Op& op);
void local_spread(Attributes& attrs, const LocalPart& part);

// With groups=P expert ranks: rows [(o p) n i], weights [(p e) i j], counts [(o a) x], where a are the P
// groups whose rows the expert ranks exchange: each needs the counts of all of them.
FactorRule exchange_rows(const Graph& graph, const Op& op);
FactorRule grouped_matmul(const Graph& graph, const Op& op);
FactorRule grouped_matmul_grad_rows(const Graph& graph, const Op& op);
FactorRule grouped_matmul_grad_weight(const Graph& graph, const Op& op);
FactorRule grouped_bias(const Graph& graph, const Op& op);
FactorRule grouped_bias_grad(const Graph& graph, const Op& op);
/// `begin`: the rank's first expert rank. Sets `groups` and `count` to those of the rank.
void local_experts(Attributes& attrs, const LocalPart& part);

} // namespace trivium::general
