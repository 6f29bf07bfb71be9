#pragma once
// Moves run-lifetime values between the arena and checkpoints.
#include "compile/saved_values.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "runtime/arena.hpp"

namespace trivium {

/// This rank's shard of a tensor, in the arena and in a checkpoint.
struct SavedTensor {
    TensorPiece piece; ///< the shard, without data
    HostWindow window; ///< the shard in the arena
    DType held;        ///< its element type there; bf16 is f32 in the checkpoint
    IndexRange rows;   ///< rows of the shard's first dimension that this rank writes
    Bytes row_bytes = 0;
    bool is_average = false; ///< of a parameter (train.ema)

    Bytes written() const { return rows.size * row_bytes; }
    /// The rows that this rank writes, with their data at `data`; if that is null, in the window.
    TensorPiece written_piece(std::byte* data);
    /// Copies the rows that this rank writes; `to` has written() bytes.
    void copy_written(std::byte* to);
    std::byte* own_rows(); ///< the rows that this rank writes, in the window
};

/// This rank's shards of the parameters (`param/NAME`) and optimizer states (`STATE/NAME`), as in
/// saved_values().
std::vector<SavedTensor> saved_tensors(const Compiled& compiled, const Arenas& arenas);

/// Fills `tensors`, in the arena, from the checkpoint. Throws UserError if it belongs to another model or
/// optimizer, contains only weights, or has values that are not finite; errors of CheckpointReader.
void restore(const CheckpointReader& checkpoint, const Program& program, std::vector<SavedTensor>& tensors);

/// Lets the averages of parameters (train.ema), if there are any, begin with what the arena has of these.
void begin_averages(std::vector<SavedTensor>& tensors);

/// Fills only the parameters of `program`, in their types there. Errors as restore(), but for optimizer
/// states. `begins`: adapters that the checkpoint lacks stay as they are, because a run begins with them.
/// Otherwise those of a checkpoint that has none at all are 0, so that the program computes what the
/// checkpoint does; returns whether it is so.
bool restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arenas& arenas,
                        bool begins = false);

} // namespace trivium
