#pragma once
// Token stores: files of tokenized documents. Those of other programs (io/tokens/formats/token_file.hpp) are
// read in place. Several files may be one store (io/tokens/store_list.hpp): it has their tokens and documents
// in a row, as if the files had been joined. Trivium's own is an HDF5 file:
//
//   tokens            u16 (vocab <= 65536) or u32, contiguous; eos follows each document, unless it has an
//   end
//                     of its own, as conversations have
//   document_offsets  i64, documents + 1: document d is tokens [offsets[d], offsets[d + 1])
//   tokenizer_model   u8: the SentencePiece model, the tokenizer.json, or "bytes"
//   token_hashes      u64: XXH3 of each block_bytes bytes of the tokens, the last block shorter
//   trained_spans     i64, 2 * n, only if some tokens are not trained: their mask. Tokens [spans[2 * i],
//                     spans[2 * i + 1]) are trained, in ascending order, and no others
//   attributes        vocab, eos, tokens, documents, text_bytes, tokenizer (fingerprint), block_bytes,
//                     trained_spans (n; with the dataset)
//
// The file begins with a seal (io/files/seal.hpp): kind, version, size, and a hash of all but the tokens. It
// is checked before HDF5 opens the file. Each block of tokens is verified when it is first read. Version 1
// has no mask; a store with one has version 2, so that a program that would train all tokens refuses it.
#include "base/units.hpp"
#include "config/token_type.hpp"
#include "io/files/open_files.hpp"
#include "io/tokens/tokenizer.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trivium {

/// Numbers [begin, end) of tokens.
struct TokenSpan {
    i64 begin = 0, end = 0;
    bool operator==(const TokenSpan&) const = default;
};

/// Writes a store front to back with bounded memory, but for 16 bytes per span of trained tokens. `path` does
/// not exist, or stays as it is, until finish().
class TokenStoreWriter {
public:
    /// Makes temporary files next to `path`. IoError.
    TokenStoreWriter(const std::string& path, const Tokenizer& tokenizer);
    TokenStoreWriter(TokenStoreWriter&&) noexcept;
    ~TokenStoreWriter(); ///< without finish(): removes the temporary files

    /// Appends one document: its ids without eos, and the size of its text, for bytes per token. IoError.
    /// \pre ids are in the vocabulary
    void add(std::span<const i32> ids, Bytes text_bytes);
    /// Appends one document with its end, whatever that is, of which only the tokens in `trained` are
    /// trained. Errors as add(). \pre as add(); not empty; the spans ascend and lie within the document
    void add_whole(std::span<const i32> ids, std::span<const TokenSpan> trained, Bytes text_bytes);
    /// Makes the file at `path`, atomically. UserError if there is no document, or no trained token; IoError.
    void finish();

    i64 tokens() const; ///< eos included
    i64 trained_tokens() const;
    i64 documents() const;
    Bytes text_bytes() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// What stores of other programs do not say, and a store of Trivium ignores.
struct TokenStoreOptions {
    TokenType type = TokenType::automatic; ///< of ids without a header or an index
    i64 vocab = 0;                         ///< reading an id from here on is an error; 0: the tokenizer's
    i64 eos = -1;                          ///< ends a document, if there is no index; -1: the tokenizer's
    std::shared_ptr<const Tokenizer> tokenizer{}; ///< made the ids; may be null
    /// Of all stores that are opened with these options, or copies of them.
    std::shared_ptr<OpenFiles> open_files = std::make_shared<OpenFiles>();
};

/// A token store, read-only. Movable. Several threads may read concurrently. Functions that read tokens throw
/// a UserError with the range of tokens if a block differs from what was written, if an id is outside the
/// vocabulary, or if the file was truncated; IoError.
class TokenStore {
public:
    /// Reads all but the tokens of the files that `name` names (files_of_store()). UserError if one is
    /// missing, of another kind or version, truncated or inconsistent, or differs from the first in format,
    /// type, vocabulary, tokenizer, eos, or whether it has an index; IoError.
    static TokenStore open(const std::string& name, const TokenStoreOptions& options = {});
    TokenStore(TokenStore&&) noexcept;
    TokenStore& operator=(TokenStore&&) noexcept;
    ~TokenStore();

    const std::string& format() const; ///< "Trivium", "nanoGPT .bin", …
    bool is_own() const;               ///< of Trivium
    TokenType type() const;            ///< of the ids in the file
    bool type_is_guessed() const;      ///< found from the content
    i64 size() const;                  ///< tokens, eos included
    i64 vocab() const;                 ///< 0: unknown
    Bytes text_bytes() const;          ///< size of all documents as text; 0: unknown
    Bytes file_bytes() const;          ///< of the files with the ids
    i32 eos() const;                   ///< -1: unknown
    /// Whether there is an index or an eos. Without an index the next two functions find the documents in the
    /// tokens, which reads them all once; without both they throw a UserError.
    bool knows_documents() const;
    void require_documents() const; ///< UserError unless knows_documents()
    i64 documents() const;
    /// Index of the first token of document d; size() for d == documents(). \pre 0 <= d <= documents()
    i64 document_begin(i64 d) const;

    /// Sets begins[i] to whether token begin + i is the first of its document, by the index, otherwise by the
    /// eos before it. UserError if there is neither. \pre as read()
    void mark_begins(i64 begin, i64 count, bool* begins) const;

    /// Whether some tokens are not trained.
    bool has_mask() const;
    i64 trained_tokens() const;
    /// The parts of [begin, begin + count) whose tokens are trained, in order. \pre as read()
    std::vector<TokenSpan> trained(i64 begin, i64 count) const;

    /// \pre 0 <= at < size()
    i32 token(i64 at) const;
    /// Copies tokens [begin, begin + count) to `out`.
    /// \pre 0 <= begin, begin + count <= size()
    void read(i64 begin, i64 count, i32* out) const;

    const std::string& path() const; ///< of the file; of several, what names them
    /// A file with ids.
    struct File {
        std::string path;
        i64 tokens = 0;
        Bytes bytes = 0;
        i64 trained = 0; ///< tokens
    };
    std::vector<File> files() const;
    const std::string& fingerprint() const; ///< Tokenizer::fingerprint(); empty: unknown
    /// Number and hash of the tokens and of their mask: "123456 tokens, 0123456789abcdef".
    std::string content() const;
    /// UserError if neither the file nor the options have one.
    std::unique_ptr<Tokenizer> tokenizer() const;

    /// A hash of the tokens, computed from the hashes of their blocks (does not read the tokens), and of
    /// their mask. For a store of another program a hash of its index, and of the tokens up to 64 MiB;
    /// beyond, of 256 blocks, evenly spread, and of one at least in each file. That of several files is a
    /// hash of theirs.
    u64 tokens_hash() const;

    /// Verifies the tokenizer, and token blocks part, part + parts, part + 2 * parts, … UserError if any
    /// differs from what was written, or has an id outside the vocabulary; IoError.
    void verify(i64 part = 0, i64 parts = 1) const;

private:
    struct Impl;
    explicit TokenStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// Whether a file among those that `name` names is a token store with a mask. Reads the first bytes of each;
/// false if they cannot be read.
bool names_mask(const std::string& name);

} // namespace trivium
