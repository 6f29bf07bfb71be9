#pragma once
// Tokenizes a corpus into token stores, on all threads of all ranks. The stores have the same bytes for any
// number of threads and ranks.
#include "io/tokens/text/chat_documents.hpp"
#include "io/tokens/text/text_corpus.hpp"
#include "io/tokens/token_store.hpp"
#include "mpi/comm.hpp"

#include <functional>

namespace trivium {

struct TokenizeJob {
    TextSelection text;
    ChatRule chats{}; ///< of records of chats, if text.chats is set
    const Tokenizer* tokenizer = nullptr;
    std::string output;
    std::string valid{};          ///< the store of the text that is held out; empty: none
    double valid_fraction = 0.05; ///< of the text, in (0, 1); see hold_out.hpp
    bool append = false;          ///< behind what the stores have already, if they exist
    int threads = 1;              ///< of this rank

    /// After the first pass, if text is held out: the number of documents, and the share that is held out.
    std::function<void(i64 documents, double share)> on_survey{};
    /// Often, on rank 0: bytes that this rank has read, and those that it will read; tokens so far.
    std::function<void(Bytes done, Bytes total, i64 tokens)> on_progress{};
};

struct StoreSummary {
    std::string path;
    i64 documents = 0, tokens = 0, trained_tokens = 0;
    Bytes text_bytes = 0;
};

struct TokenizedText {
    CorpusReport report;
    Bytes bytes = 0;                    ///< of the files
    std::vector<StoreSummary> stores{}; ///< output and valid, on rank 0
};

/// All ranks call it with the same job. Each reads a contiguous part of the corpus, and writes a part store
/// next to the output, which rank 0 joins: the outputs' folders must be on a file system of all ranks. The
/// stores exist when all is done, or stay as they are. Errors as TextSource, on all ranks; UserError also if
/// a document cannot be tokenized (unless text.skip_bad), if no text is left for a store, or if a store to
/// append to was made by another tokenizer. Memory of a rank: about 2 * threads + 2 blocks of 1 MiB, or the
/// largest file if it is neither one of lines nor Parquet.
TokenizedText tokenize_text(const TokenizeJob& job, Comm& comm);

/// The ids of a long text, computed on `threads` threads. Errors as Tokenizer::encode.
std::vector<i32> encode_long(const Tokenizer& tokenizer, std::string_view text, int threads);

} // namespace trivium
