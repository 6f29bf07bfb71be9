#pragma once
// Names of values that one room creates and another looks up.

namespace trivium::value_name {

// Fed by the host for each microbatch. starts: with documents, the index in the sequence of the first token
// of each token's document.
inline constexpr const char *tokens = "tokens", *targets = "targets", *positions = "positions",
                            *starts = "starts";
/// With dropout: the number of each sequence's sample in the run, i32[b,2], the lower word first.
inline constexpr const char* samples = "samples";
/// If the model asks for it: 1 for the rows of the microbatch that are samples, 0 for padding, f32[b].
inline constexpr const char* valid = "valid";
// In a decode graph, of each sequence: the number of tokens in the cache, and the new token whose logits are
// requested.
inline constexpr const char *start = "start", *last = "last";
// Fed by the host for each step: the optimizer's hyperparameters.
inline constexpr const char* hyper = "hyper";

/// The loss per token; in a decode graph, the logits.
inline constexpr const char *loss = "loss", *logits = "logits";
/// Outputs before the pass `optimizer`; afterwards elements of `totals` (positions: passes/optimizer.hpp).
inline constexpr const char *loss_sum = "loss_sum", *token_count = "token_count";
/// Outputs of a step: the scalars that one reduction adds over all ranks, and f64[2]: norm of the mean
/// gradient and factor that averages and clips.
inline constexpr const char *totals = "totals", *norm = "global_norm";
/// Fed for a step whose update does not wait for the norm (passes/pipeline/post_validate.hpp): f64[2] like
/// `global_norm`, of which the update reads only the factor.
inline constexpr const char* assumed = "assumed";

/// Fed for a step with averages (UpdateKind::average): the number of its microbatches, f64[].
inline constexpr const char* microbatches = "microbatches";

/// The output of the program `norms` (passes/layer_norms.hpp).
inline constexpr const char* norms = "norms";

/// Prefixes of a parameter's name: its gradient (or what else its update reads), and that
/// reduced over ranks.
inline constexpr const char *gradient = "grad.", *reduced_gradient = "grad_sum.";

} // namespace trivium::value_name
