#pragma once
// Token stores: an HDF5 file of tokenized documents.
//
//   tokens            u16 (vocab <= 65536) or u32, contiguous; each document is followed by eos
//   document_offsets  i64, documents + 1: document d is tokens [d, d + 1)
//   tokenizer_model   u8: the SentencePiece model, the tokenizer.json, or "bytes"
//   token_hashes      u64: XXH3 of each block_bytes bytes of the tokens, the last block shorter
//   attributes        vocab, eos, tokens, documents, text_bytes, tokenizer (fingerprint), block_bytes
//
// In front of HDF5's own bytes stands the seal (io/files/seal.hpp): kind, version, size, hash of all but the
// tokens. It is checked before HDF5 sees the file; the tokens are checked block by block, when one is first
// read.
#include "base/units.hpp"
#include "io/tokens/tokenizer.hpp"

#include <memory>
#include <span>
#include <string>

namespace trivium {

/// Writes a store front to back with bounded memory. Nothing stands at `path` before finish().
class TokenStoreWriter {
public:
    TokenStoreWriter(const std::string& path, const Tokenizer& tokenizer);
    TokenStoreWriter(TokenStoreWriter&&) noexcept;
    ~TokenStoreWriter(); ///< without finish(): removes the temporary files

    /// One document's ids, without eos. `text_bytes`: what it had as text, for bytes per token.
    void add(std::span<const i32> ids, Bytes text_bytes);
    /// Completes the file at `path`, atomically. UserError without any document, IoError if writing fails.
    void finish();

    i64 tokens() const; ///< eos included
    i64 documents() const;
    Bytes text_bytes() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// A store, read only; the tokens are mapped, not loaded. Movable. Threads may read at once.
/// What reads tokens throws a UserError, which names them, where their block is not the one that was written.
class TokenStore {
public:
    /// UserError if the file is missing, of another kind or version, truncated or inconsistent. Reads all
    /// but the tokens.
    static TokenStore open(const std::string& path);
    TokenStore(TokenStore&&) noexcept;
    TokenStore& operator=(TokenStore&&) noexcept;
    ~TokenStore();

    i64 size() const; ///< tokens, eos included
    i64 vocab() const;
    i64 documents() const;
    Bytes text_bytes() const; ///< of all documents as text
    Bytes file_bytes() const;
    i32 eos() const;
    /// First token of document d; d == documents() gives size(). \pre 0 <= d <= documents()
    i64 document_begin(i64 d) const;

    /// \pre 0 <= at < size()
    i32 token(i64 at) const;
    /// Tokens [begin, begin + count).
    /// \pre 0 <= begin, begin + count <= size()
    void read(i64 begin, i64 count, i32* out) const;

    const std::string& path() const;
    const std::string& fingerprint() const; ///< of the tokenizer
    std::string content()
        const; ///< number and hash of the tokens, as they were written: "123456 tokens, 0123456789abcdef"
    std::unique_ptr<Tokenizer> tokenizer() const;

    /// Equal where two stores have the same tokens. Reads none of them.
    u64 tokens_hash() const;

    /// Reads every `parts`th block of tokens from `part` on, and the tokenizer. UserError if they are not
    /// the ones that were written.
    void verify(i64 part = 0, i64 parts = 1) const;

private:
    struct Impl;
    explicit TokenStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
