#pragma once
// One file of a token store: of Trivium (token_store.hpp describes the format), or of another program.
#include "base/dtype.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/open_files.hpp"
#include "io/tokens/formats/token_file.hpp"
#include "io/tokens/token_store.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

inline constexpr const char* token_store_kind = "Trivium token store";
inline constexpr i64 token_store_version = 2;
constexpr i64 version_of_store(bool has_mask) { return has_mask ? 2 : 1; }
/// Of tokens with one hash. Small, because reading a sample hashes whole blocks.
inline constexpr Bytes hashed_block = Bytes{256} << 10;
/// Of the tokens in a store of Trivium.
constexpr DType stored_type(i64 vocab) { return vocab <= 65536 ? DType::u16 : DType::u32; }

/// Read-only. Movable. Several threads may read concurrently. Errors as TokenStore; token numbers in their
/// messages are those in this file.
struct StoreFile {
    static StoreFile open(const std::string& path, const TokenStoreOptions& options);

    [[noreturn]] void damaged(const std::string& problem) const;
    /// Copies tokens [begin, begin + count) to `out`. \pre they are in the file
    void read(i64 begin, i64 count, i32* out) const;
    i64 blocks() const { return ceil_div(size * width, block_bytes); }
    /// Verifies the hash of a block, unless that is done; of another program's file, the ids.
    void verify_block(i64 block) const;
    /// As TokenStore::tokens_hash(). `most`: blocks of another program's file that are read for it.
    u64 hash(i64 most) const;

    std::string path, format = "Trivium", fingerprint, model;
    i64 size = 0, vocab = 0, eos = -1;
    i64 limit = 0; ///< an id from here on is an error
    Bytes text_bytes = 0, file_bytes = 0, width = 2, block_bytes = 0;
    TokenType type = TokenType::uint16;
    bool foreign = false; ///< of another program
    bool guessed = false; ///< type
    bool indexed = false; ///< knows its documents without eos
    /// Of documents, with the end; empty if not indexed. TokenStore takes them.
    std::vector<i64> offsets;
    std::vector<TokenSpan> trained; ///< of this file; TokenStore takes them
    i64 trained_tokens = 0;

private:
    void open_own(const std::shared_ptr<OpenFiles>& group);
    void open_foreign(TokenFile found, const TokenStoreOptions& options);
    void read_header();
    void read_mask();
    Bytes place_of(const h5::File& opened, const std::string& name, DType of, i64 count) const;
    void read_bytes(Bytes at, Bytes count, void* to) const;
    std::vector<unsigned char> token_bytes(Bytes at, Bytes count) const;
    Bytes bytes_of_block(i64 block) const;
    u64 hash_of_block(i64 block) const;

    u64 index_hash_ = 0;                           ///< of the offsets, if foreign
    std::optional<u64> mask_hash_;                 ///< of the trained spans; nullopt: no mask
    std::vector<u64> hashes_;                      ///< of blocks; empty if foreign
    std::unique_ptr<std::atomic<bool>[]> checked_; ///< blocks that were verified
    std::optional<OccasionalFile> file_;
    Bytes tokens_at_ = 0, offsets_at_ = 0, hashes_at_ = 0, mask_at_ = 0; ///< offsets in the file
    i64 version_ = 0, spans_ = 0; ///< spans of trained tokens; 0: no mask
};

} // namespace trivium
