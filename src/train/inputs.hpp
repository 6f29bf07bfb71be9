#pragma once
// What a run or a command reads, held against its config: checkpoints, token stores, tokenizers.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/tokens/token_store.hpp"

#include <memory>
#include <string>

namespace trivium {

/// Throws UserError where the checkpoint was trained with other values of [model] than `config` has: shapes
/// alone do not tell a model (norm_eps, rope_theta, …). The sequence length may differ.
void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config);
/// Throws UserError where `tokenizer` (a fingerprint) is not the one that the checkpoint was trained with;
/// of an imported one without a tokenizer, nothing is known.
void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer,
                            const std::string& place);
/// Throws UserError where data.tokenizer names another tokenizer than the store was made with.
void require_tokenizer(const DataConfig& data, const TokenStore& store);
/// That of the store data.train; without one the tokenizer that data.tokenizer names, "bytes" by default.
/// UserError where both are given and differ.
std::unique_ptr<Tokenizer> tokenizer_of(const DataConfig& data);

/// Reads the tokens of a store before they are used, `parts` ranks on one machine a part each: a damaged
/// store ends a run before its first step. Of a store of more than 2 GiB nothing: its blocks are verified as
/// they are first read. UserError where a block is not the one that was written.
void verify_at_start(const TokenStore& store, i64 part = 0, i64 parts = 1);

/// The checkpoint that a command reads: `path` where given, else the newest good one of the run.
CheckpointReader open_checkpoint(const std::string& path, const CheckpointConfig& config);

} // namespace trivium
