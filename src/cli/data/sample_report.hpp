#pragma once
// `trivium data show --sample`: tokens, and which of them are trained.
#include "io/tokens/token_store.hpp"

#include <string>

namespace trivium {

struct SampleChoice {
    i64 number = -1;      ///< of a document, or with a config of a sample; -1: none
    std::string config{}; ///< file whose model.seq and [data] make the samples; empty: documents are shown
    bool json = false;
};

/// Prints the text with its special tokens: trained tokens in colour on a terminal (unless NO_COLOR is set),
/// otherwise [in brackets]; or as JSON token by token. UserError if there is no such document or sample, or
/// no tokenizer.
void show_sample(TokenStore store, const SampleChoice& choice);

} // namespace trivium
