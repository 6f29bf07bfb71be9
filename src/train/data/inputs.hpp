#pragma once
// Checks that checkpoints, token stores and tokenizers match the config of a run or a command.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/tokens/token_store.hpp"

#include <memory>
#include <string>

namespace trivium {

/// Throws UserError if a key of [model] that changes the forward pass but no shape (KeyKind::forward) has
/// another value in the checkpoint's config: shapes alone do not identify a model.
void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config);
/// Throws UserError if a run cannot begin with the adapters of the checkpoint, because train.lora has another
/// rank or scale. It may have more of them.
void require_fitting_adapters(const CheckpointReader& checkpoint, const RunConfig& config);
/// For commands that compute with a checkpoint: lets a config without adapters have those of the
/// checkpoint's config; returns whether it has some now that it had not.
bool take_adapters(const CheckpointReader& checkpoint, RunConfig& config);
/// Throws UserError, about `place`, if `tokenizer` (a fingerprint, empty if unknown) is not the checkpoint's.
/// Accepts any tokenizer for a checkpoint that knows none: it was imported or trained without one.
void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer,
                            const std::string& place);
/// The tokenizer that data.tokenizer names, by default "bytes". Throws UserError.
std::unique_ptr<Tokenizer> tokenizer_named_by(const DataConfig& data);
/// What the config says about token stores of other programs; `vocab`: model.vocab. Throws UserError.
TokenStoreOptions store_options(const DataConfig& data, i64 vocab = 0);
/// Throws UserError if `path`, which is to be a token store, is a file of arrays, or another HDF5 file.
void require_no_arrays(const std::string& path);
/// Throws UserError if data.tokenizer is set and names another tokenizer than the store contains.
/// \pre `options` are store_options(data), with which the store was opened
void require_tokenizer(const DataConfig& data, const TokenStoreOptions& options, const TokenStore& store);
/// The tokenizer in the first file of data.train; without a store, tokenizer_named_by(data). Throws
/// UserError if both are set and differ.
std::unique_ptr<Tokenizer> tokenizer_of(const DataConfig& data);

/// More is not read before the first step: this takes a few seconds, even from a slow disk.
inline constexpr Bytes most_verified_at_start = Bytes{2} << 30;
/// Verifies the tokens of a store in advance, so that a damaged store ends a run before its first step.
/// `parts` ranks of one machine call it, each for another `part`. Skips stores of more than that, whose
/// blocks are verified when they are first read. Throws UserError if a block is damaged.
void verify_at_start(const TokenStore& store, i64 part = 0, i64 parts = 1);

/// The checkpoint for a command: `path`; if that is empty, the newest good checkpoint in checkpoint.dir; if
/// there is none yet, train.init_from, with whose weights the run begins. Throws UserError if there is no
/// such checkpoint.
CheckpointReader open_checkpoint(const std::string& path, const RunConfig& config);

} // namespace trivium
