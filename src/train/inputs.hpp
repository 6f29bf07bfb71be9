#pragma once
// Checks that checkpoints, token stores and tokenizers match the config of a run or a command.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/tokens/token_store.hpp"

#include <memory>
#include <string>

namespace trivium {

/// Throws UserError if a key of [model] that changes the forward pass and no shape (KeyKind::forward) has
/// another value in the checkpoint's config: shapes alone do not identify a model.
void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config);
/// Throws UserError if `tokenizer` (a fingerprint) is not that of the checkpoint. Accepts any tokenizer for a
/// checkpoint that was imported without one.
void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer,
                            const std::string& place);
/// That of data.tokenizer, "bytes" by default.
std::unique_ptr<Tokenizer> tokenizer_named_by(const DataConfig& data);
/// Throws UserError if data.tokenizer names another tokenizer than that of the store.
void require_tokenizer(const DataConfig& data, const TokenStore& store);
/// The tokenizer of the store data.train; without a store, that of data.tokenizer, "bytes" by default. Throws
/// UserError if both are set and differ.
std::unique_ptr<Tokenizer> tokenizer_of(const DataConfig& data);

/// Verifies the tokens of a store in advance, so that a damaged store ends a run before its first step. Each
/// of `parts` ranks on one machine reads one part. Skips stores of more than 2 GiB, whose blocks are verified
/// when they are first read. Throws UserError if a block is damaged.
void verify_at_start(const TokenStore& store, i64 part = 0, i64 parts = 1);

/// The checkpoint for a command: `path`, or if that is empty the newest good one of the run, or the weights
/// that the run begins with (train.init_from) while it has none.
CheckpointReader open_checkpoint(const std::string& path, const RunConfig& config);

} // namespace trivium
