#pragma once
// Between the arena and checkpoints: which run-lifetime values are saved, and under which names.
#include "io/checkpoint.hpp"
#include "io/token_store.hpp"
#include "runtime/arena.hpp"
#include "train/saved_values.hpp"

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

/// Parameters as `param/NAME`, optimizer states as `adam_m/NAME`, `adam_v/NAME`: this rank's parts, as saved_values() has them.
std::vector<SavedTensor> saved_tensors(const Compiled& compiled, const Arena& arena);

/// Fills the arena's `tensors` from the checkpoint. Throws UserError where it is one of another model.
void restore(const CheckpointReader& checkpoint, const Program& program, std::vector<SavedTensor>& tensors);

/// Fills the parameters of an inference program, in the type in which it keeps them.
void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arena& arena);

/// Throws UserError where the checkpoint was trained with other values of [model] than `config` has: shapes alone do
/// not tell a model (norm_eps, rope_theta, …). The sequence length may differ.
void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config);
/// Throws UserError where `tokenizer` (a fingerprint) is not the one that the checkpoint was trained with;
/// of an imported one without a tokenizer, nothing is known.
void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer, const std::string& place);
/// Throws UserError where data.tokenizer names another tokenizer than the store was made with.
void require_tokenizer(const DataConfig& data, const TokenStore& store);
/// That of the store data.train; without one the tokenizer that data.tokenizer names, "bytes" by default. UserError
/// where both are given and differ.
std::unique_ptr<Tokenizer> tokenizer_of(const DataConfig& data);

/// Reads the tokens of a store before they are used, `parts` ranks on one machine a part each: a damaged store ends a run
/// before its first step. Of a store of more than 2 GiB nothing: its blocks are verified as they are first read.
/// UserError where a block is not the one that was written.
void verify_at_start(const TokenStore& store, i64 part = 0, i64 parts = 1);

/// The checkpoint that a command reads: `path` where given, else the newest good one of the run.
CheckpointReader open_checkpoint(const std::string& path, const CheckpointConfig& config);

} // namespace trivium
