#pragma once
// Between the arena and checkpoints: which run-lifetime values are saved, and under which names.
#include "compile/saved_values.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "runtime/arena.hpp"

namespace trivium {

/// This rank's part of a tensor, in the arena and in a checkpoint.
struct SavedTensor {
    TensorPiece piece; ///< all that this rank holds, without data
    HostWindow window; ///< of it
    Stretch rows;      ///< of its first dimension, what this rank writes
    Bytes row_bytes = 0;

    Bytes written() const { return rows.size * row_bytes; }
    /// What this rank writes; `data` has it, or where it is null, the arena.
    TensorPiece written_piece(std::byte* data);
    /// Copies what this rank writes; `to` has written() bytes.
    void copy_written(std::byte* to);
};

/// Parameters as `param/NAME`, optimizer states as `adam_m/NAME`, `adam_v/NAME`: this rank's parts, as
/// saved_values() has them.
std::vector<SavedTensor> saved_tensors(const Compiled& compiled, const Arena& arena);

/// Fills the arena's `tensors` from the checkpoint. Throws UserError where it is one of another model.
void restore(const CheckpointReader& checkpoint, const Program& program, std::vector<SavedTensor>& tensors);

/// Fills the parameters of an inference program, in the type in which it keeps them.
void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arena& arena);

} // namespace trivium
