#pragma once
// Appends token stores to a new one.
#include "io/tokens/token_store.hpp"

namespace trivium {

/// Appends the documents of a store: the writer makes the same bytes as if it got their texts. UserError
/// unless it was made by this tokenizer, with the same end-of-text token; errors as TokenStore::read.
void append_store(TokenStoreWriter& writer, const TokenStore& store, const Tokenizer& tokenizer);

} // namespace trivium
