#include "io/tokens/token_store.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "io/files/blocks.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/in_child.hpp"
#include "io/files/plain_file.hpp"
#include "io/files/seal.hpp"
#include "io/tokens/formats/token_file.hpp"
#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <vector>

namespace trivium {

namespace {

constexpr const char* kind = "Trivium token store";
constexpr const char* make_it_again = "copy it again whole, or make it again with `trivium data tokenize`";
constexpr i64 version = 1;
constexpr i64 copied_at_once = i64{4} << 20;     ///< elements
constexpr Bytes hashed_block = Bytes{256} << 10; ///< small, because reading a sample hashes whole blocks
constexpr Bytes largest_block = Bytes{1} << 30;
constexpr i64 largest_vocab = (i64{1} << 31) - 1;
constexpr i64 largest_guess =
    i64{1} << 24; ///< where nothing says the vocabulary; no tokenizer has as many tokens

constexpr DType type_for(i64 vocab) { return vocab <= 65536 ? DType::u16 : DType::u32; }
constexpr Bytes width_for(i64 vocab) { return size_of(type_for(vocab)); }

} // namespace

// ---- writing

struct TokenStoreWriter::Impl {
    Impl(std::string path_, const Tokenizer& tokenizer)
        : path(std::move(path_)), raw_tokens(str(path, ".tokens-", ::getpid())),
          raw_offsets(str(path, ".offsets-", ::getpid())), vocab(tokenizer.vocab_size()),
          eos(tokenizer.eos()), fingerprint(tokenizer.fingerprint()), model(tokenizer.model()),
          token_file(PlainFile::open_to_write(raw_tokens)), token_blocks(token_file, 0, hashed_block),
          offset_file(raw_offsets)
    {
    }
    ~Impl()
    {
        ::unlink(raw_tokens.c_str());
        ::unlink(raw_offsets.c_str());
    }

    void put(std::span<const i32> ids)
    {
        narrow.clear();
        for (const i32 id : ids) {
            TRV_CHECK(id >= 0 && id < vocab, "token ", id, " of a vocabulary of ", vocab);
            for (Bytes byte = 0; byte < width_for(vocab); ++byte)
                narrow.push_back(static_cast<char>(id >> (8 * byte) & 0xff));
        }
        token_blocks.write(reinterpret_cast<const std::byte*>(narrow.data()),
                           static_cast<Bytes>(narrow.size()));
        tokens += static_cast<i64>(ids.size());
    }

    /// Copies a raw file of `count` elements into a dataset, block by block.
    static void copy(const std::string& raw, h5::Dataset dataset, i64 count, DType type)
    {
        std::ifstream file(raw, std::ios::binary);
        std::vector<char> block(static_cast<std::size_t>(std::min(count, copied_at_once) * size_of(type)));
        for (i64 begin = 0; begin < count; begin += copied_at_once) {
            const i64 size = std::min(copied_at_once, count - begin);
            if (!file.read(block.data(), static_cast<std::streamsize>(size * size_of(type))))
                throw IoError({raw, "cannot be read back", "this temporary file changed while it was in use",
                               "run the command again"});
            dataset.write(begin, size, type, block.data());
        }
    }

    std::string path, raw_tokens, raw_offsets;
    i64 vocab;
    i32 eos;
    std::string fingerprint, model;
    // HDF5's contiguous layout needs the size first, so tokens and offsets go to temporary files until then.
    PlainFile token_file;
    BlockWriter token_blocks;
    FileWriter offset_file;
    std::string narrow;
    i64 tokens = 0, documents = 0;
    Bytes text_bytes = 0;
};

TokenStoreWriter::TokenStoreWriter(const std::string& path, const Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(path, tokenizer))
{
}
TokenStoreWriter::TokenStoreWriter(TokenStoreWriter&&) noexcept = default;
TokenStoreWriter::~TokenStoreWriter() = default;

void TokenStoreWriter::add(std::span<const i32> ids, Bytes text_bytes)
{
    impl_->offset_file.write(&impl_->tokens, sizeof impl_->tokens);
    impl_->put(ids);
    impl_->put({&impl_->eos, 1});
    ++impl_->documents;
    impl_->text_bytes += text_bytes;
}

void TokenStoreWriter::finish()
{
    Impl& w = *impl_;
    if (w.documents == 0)
        throw UserError({w.path, "no document to store", "the input has no text", "name files with text"});
    w.offset_file.write(&w.tokens, sizeof w.tokens);
    w.token_blocks.finish();
    w.token_file.close();
    w.offset_file.close();
    replace_file(w.path, [&](const std::string& temporary) {
        h5::File file = h5::File::create(temporary, {.reserved = seal_bytes});
        file.set("vocab", w.vocab);
        file.set("eos", static_cast<i64>(w.eos));
        file.set("tokens", w.tokens);
        file.set("documents", w.documents);
        file.set("text_bytes", w.text_bytes);
        file.set("tokenizer", w.fingerprint);
        file.set("block_bytes", hashed_block);
        file.write_bytes("tokenizer_model", w.model);
        const std::vector<u64>& hashes = w.token_blocks.hashes();
        const auto blocks = static_cast<i64>(hashes.size());
        file.create_dataset("token_hashes", DType::u64, {blocks}).write(0, blocks, DType::u64, hashes.data());
        const DType type = type_for(w.vocab);
        Impl::copy(w.raw_offsets, file.create_dataset("document_offsets", DType::i64, {w.documents + 1}),
                   w.documents + 1, DType::i64);
        h5::Dataset tokens = file.create_dataset("tokens", type, {w.tokens});
        const Bytes begin = tokens.file_offset();
        Impl::copy(w.raw_tokens, std::move(tokens), w.tokens, type);
        file.close();
        // The seal skips the tokens: their blocks have separate hashes, verified when they are first read.
        seal_file(temporary, kind, version, begin, w.tokens * size_of(type));
    });
}

i64 TokenStoreWriter::tokens() const { return impl_->tokens; }
i64 TokenStoreWriter::documents() const { return impl_->documents; }
Bytes TokenStoreWriter::text_bytes() const { return impl_->text_bytes; }

// ---- reading

struct TokenStore::Impl {
    [[noreturn]] void damaged(const std::string& problem) const
    {
        throw UserError(
            {path, problem, "the token store is damaged", foreign ? write_foreign_again : make_it_again});
    }

    /// All but the content of the large datasets, with HDF5.
    void read_header()
    {
        try {
            const h5::File opened = h5::File::open(path);
            vocab = limit = opened.get_integer("vocab");
            const i64 documents = opened.get_integer("documents");
            text_bytes = opened.get_integer("text_bytes");
            size = opened.get_integer("tokens");
            eos = opened.get_integer("eos");
            fingerprint = opened.get_string("tokenizer");
            block_bytes = opened.get_integer("block_bytes");
            model = opened.read_bytes("tokenizer_model");
            if (vocab <= 0 || vocab > largest_vocab || eos < 0 || eos >= vocab || documents <= 0 ||
                size < documents || size > file_bytes || documents > file_bytes || text_bytes < 0 ||
                block_bytes < 4 || block_bytes > largest_block || block_bytes % 4 != 0)
                damaged("has attributes out of range");
            type = type_for(vocab) == DType::u16 ? TokenType::uint16 : TokenType::uint32;
            width = size_of(type);
            tokens_at = place_of(opened, "tokens", type_for(vocab), size);
            offsets_at = place_of(opened, "document_offsets", DType::i64, documents + 1);
            hashes_at = place_of(opened, "token_hashes", DType::u64, blocks());
            offsets.resize(static_cast<std::size_t>(documents + 1));
        } catch (const IoError& error) { // HDF5 failed on damaged bytes
            damaged(error.what());
        }
    }

    /// Opens a store of Trivium.
    void open_own()
    {
        check_seal(path, {kind, version, make_it_again, "tokenize the text again: `trivium data tokenize`"});
        file_bytes = file_size(path);
        // The seal finds accidents; a crafted file has a seal that fits, and may crash HDF5.
        try_in_child(path, [&] { read_header(); });
        read_header();
        file = PlainFile::open(path, "token store", PlainFile::Links::follow);
        read_bytes(offsets_at, 8 * static_cast<Bytes>(offsets.size()), offsets.data());
        hashes.resize(static_cast<std::size_t>(blocks()));
        read_bytes(hashes_at, 8 * blocks(), hashes.data());
        checked = std::make_unique<std::atomic<bool>[]>(hashes.size());
        if (offsets.front() != 0 || offsets.back() != size || !std::ranges::is_sorted(offsets))
            damaged("its document offsets are out of order");
    }

    /// Opens a file of another program.
    void open_foreign(TokenFile found, const TokenStoreOptions& options)
    {
        file = PlainFile::open(found.path, "file of tokens", PlainFile::Links::follow);
        foreign = true;
        path = std::move(found.path);
        format = std::move(found.format);
        guessed = found.guessed;
        type = found.header.type;
        width = size_of(type);
        tokens_at = found.header.begin;
        size = found.header.tokens;
        offsets = std::move(found.header.offsets);
        file_bytes = file->size();
        block_bytes = hashed_block;
        if (options.tokenizer) {
            fingerprint = options.tokenizer->fingerprint();
            model = options.tokenizer->model();
            vocab = options.tokenizer->vocab_size();
            eos = options.tokenizer->eos();
        }
        vocab = options.vocab > 0 ? options.vocab : vocab;
        eos = options.eos >= 0 ? options.eos : eos;
        limit = vocab > 0 ? std::min(vocab, largest_vocab) : largest_guess;
        if (size == 0)
            damaged("contains no tokens");
        if (eos >= limit)
            throw UserError({path, str("cannot have documents that end with id ", eos),
                             str("the vocabulary has ", limit, " tokens"), "correct data.eos"});
    }

    i64 blocks() const { return ceil_div(size * width, block_bytes); }

    /// Offset in the file of a dataset, whose bytes are contiguous.
    Bytes place_of(const h5::File& opened, const std::string& name, DType of, i64 count) const
    {
        const h5::Dataset data = opened.dataset(name);
        if (data.shape() != std::vector<i64>{count} || data.type() != of)
            damaged(str("its dataset '", name, "' does not match its attributes in size or type"));
        const Bytes at = data.file_offset(), end = at + count * trivium::size_of(of);
        if (at < 0 || end > file_bytes)
            damaged(str("ends after ", file_bytes, " bytes; its dataset '", name, "' reaches to ", end));
        return at;
    }

    /// Not from a mapping, which ends the process if the file is truncated.
    void read_bytes(Bytes at, Bytes count, void* to) const
    {
        if (const Bytes now = file->size(); now < at + count)
            damaged(str("now ends after ", now, " bytes: something has truncated it since it was opened"));
        file->read(at, to, count);
    }

    /// Bytes [at, at + count) of the tokens.
    std::vector<unsigned char> token_bytes(Bytes at, Bytes count) const
    {
        std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
        read_bytes(tokens_at + at, count, bytes.data());
        return bytes;
    }

    Bytes bytes_of_block(i64 block) const
    {
        return std::min(block_bytes, size * width - block * block_bytes);
    }
    u64 hash_of_block(i64 block) const
    {
        const Bytes bytes = bytes_of_block(block);
        return hash_block(token_bytes(block * block_bytes, bytes).data(), bytes);
    }

    /// Verifies a block of the tokens unless that is done.
    void check_block(i64 block) const
    {
        std::atomic<bool>& known = checked[static_cast<std::size_t>(block)];
        if (known.load(std::memory_order_relaxed))
            return;
        if (hash_of_block(block) != hashes[static_cast<std::size_t>(block)]) {
            const Bytes at = block * block_bytes;
            damaged(str("its tokens ", at / width, " to ", (at + bytes_of_block(block)) / width - 1,
                        " are not the ones that were written (their hash differs)"));
        }
        known.store(true, std::memory_order_relaxed);
        Activity::of_process().advance();
    }

    void check_tokens(i64 begin, i64 count) const
    {
        for (i64 block = begin * width / block_bytes; block * block_bytes < (begin + count) * width; ++block)
            check_block(block);
    }

    void read(i64 begin, i64 count, i32* out) const
    {
        if (!foreign)
            check_tokens(begin, count);
        const std::vector<unsigned char> bytes = token_bytes(begin * width, count * width);
        const i64 good = widen(type, bytes.data(), count, limit, out);
        if (good == count)
            return;
        if (!foreign) // it would index past the embedding table
            damaged(str("has a token beyond its vocabulary of ", vocab, ", near token ", begin));
        throw UserError({path,
                         str("its token ", begin + good, " is ", id_text(type, bytes.data() + good * width),
                             vocab > 0 ? str(", outside the vocabulary of ", limit)
                                       : std::string(", no tokenizer has that many")),
                         str("the ids are read as ", name_of(type), " (", format, ")"),
                         "use the vocabulary of the tokenizer that made the ids (model.vocab); if the file "
                         "has neither header nor "
                         "index, set data.token_type (--type) to its type"});
    }

    /// The tokens of a block of another program's file.
    std::vector<i32> read_block(i64 block) const
    {
        std::vector<i32> ids(static_cast<std::size_t>(bytes_of_block(block) / width));
        read(block * block_bytes / width, static_cast<i64>(ids.size()), ids.data());
        Activity::of_process().advance();
        return ids;
    }

    bool knows_documents() const { return !offsets.empty() || eos >= 0; }

    void require_documents() const
    {
        if (!knows_documents())
            throw UserError(
                {path, "does not say where its documents end",
                 str("the format (", format, ") has no index, and the id that ends documents is unknown"),
                 "set data.eos to that id, or data.tokenizer to the tokenizer that made the ids"});
    }

    const std::vector<i64>& document_offsets() const
    {
        require_documents();
        if (!offsets.empty())
            return offsets;
        const std::lock_guard guard(once);
        if (found_offsets.empty()) {
            std::vector<i64> found{0};
            for (i64 block = 0, at = 0; block < blocks(); ++block)
                for (const i32 id : read_block(block))
                    if (++at; id == eos)
                        found.push_back(at);
            if (found.back() != size)
                found.push_back(size);
            found_offsets = std::move(found);
        }
        return found_offsets;
    }

    u64 hash_tokens() const
    {
        if (!foreign)
            return hash_block(hashes.data(), static_cast<Bytes>(hashes.size() * sizeof(u64)));
        constexpr i64 most = 256;
        const std::lock_guard guard(once);
        if (!found_hash) {
            std::vector<u64> parts{
                static_cast<u64>(size), static_cast<u64>(width),
                hash_block(offsets.data(), static_cast<Bytes>(offsets.size() * sizeof(i64)))};
            const i64 taken = std::min(most, blocks());
            for (i64 i = 0; i < taken; ++i) {
                parts.push_back(hash_of_block(taken == 1 ? 0 : i * (blocks() - 1) / (taken - 1)));
                Activity::of_process().advance();
            }
            found_hash = hash_block(parts.data(), static_cast<Bytes>(parts.size() * sizeof(u64)));
        }
        return *found_hash;
    }

    std::string path, format = "Trivium", fingerprint, model;
    i64 size = 0, vocab = 0, eos = -1;
    i64 limit = 0; ///< an id from here on is an error
    Bytes text_bytes = 0, file_bytes = 0, width = 2, block_bytes = 0;
    TokenType type = TokenType::uint16;
    bool foreign = false;                         ///< of another program
    bool guessed = false;                         ///< type
    std::vector<i64> offsets;                     ///< documents + 1; empty: no index
    std::vector<u64> hashes;                      ///< of blocks; empty if foreign
    std::unique_ptr<std::atomic<bool>[]> checked; ///< blocks that were verified
    std::optional<PlainFile> file;
    Bytes tokens_at = 0, offsets_at = 0, hashes_at = 0; ///< offsets in the file

    mutable std::mutex once; ///< for what is found when it is first asked for
    mutable std::vector<i64> found_offsets;
    mutable std::optional<u64> found_hash;
};

TokenStore::TokenStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenStore::TokenStore(TokenStore&&) noexcept = default;
TokenStore& TokenStore::operator=(TokenStore&&) noexcept = default;
TokenStore::~TokenStore() = default;

TokenStore TokenStore::open(const std::string& path, const TokenStoreOptions& options)
{
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    if (std::optional<TokenFile> found = find_token_file(path, options.type))
        impl->open_foreign(std::move(*found), options);
    else
        impl->open_own();
    return TokenStore(std::move(impl));
}

const std::string& TokenStore::format() const { return impl_->format; }
TokenType TokenStore::type() const { return impl_->type; }
bool TokenStore::type_is_guessed() const { return impl_->guessed; }
i64 TokenStore::size() const { return impl_->size; }
i64 TokenStore::vocab() const { return impl_->vocab; }
Bytes TokenStore::text_bytes() const { return impl_->text_bytes; }
Bytes TokenStore::file_bytes() const { return impl_->file_bytes; }
i32 TokenStore::eos() const { return static_cast<i32>(impl_->eos); }
const std::string& TokenStore::path() const { return impl_->path; }
std::string TokenStore::content() const { return str(impl_->size, " tokens, ", hex(tokens_hash())); }
const std::string& TokenStore::fingerprint() const { return impl_->fingerprint; }
bool TokenStore::knows_documents() const { return impl_->knows_documents(); }
void TokenStore::require_documents() const { impl_->require_documents(); }
i64 TokenStore::documents() const { return static_cast<i64>(impl_->document_offsets().size()) - 1; }

i64 TokenStore::document_begin(i64 d) const
{
    const std::vector<i64>& offsets = impl_->document_offsets();
    TRV_CHECK(d >= 0 && d < static_cast<i64>(offsets.size()), "document ", d, " of ", offsets.size() - 1);
    return offsets[static_cast<std::size_t>(d)];
}

void TokenStore::mark_begins(i64 begin, i64 count, bool* begins) const
{
    impl_->require_documents();
    const std::vector<i64>& offsets = impl_->offsets;
    std::fill_n(begins, count, false);
    if (!offsets.empty()) {
        for (auto at = std::ranges::lower_bound(offsets, begin); at != offsets.end() && *at < begin + count;
             ++at)
            begins[*at - begin] = true;
        return;
    }
    const i64 first = std::max<i64>(begin - 1, 0); // the one before may end a document
    std::vector<i32> ids(static_cast<std::size_t>(begin + count - first));
    read(first, static_cast<i64>(ids.size()), ids.data());
    for (i64 i = 0; i < count; ++i)
        begins[i] = begin + i == 0 || ids[static_cast<std::size_t>(begin + i - 1 - first)] == impl_->eos;
}

i32 TokenStore::token(i64 at) const
{
    TRV_EXPECT(at >= 0 && at < size(), "token ", at, " of ", size());
    i32 token = 0;
    read(at, 1, &token);
    return token;
}

void TokenStore::read(i64 begin, i64 count, i32* out) const
{
    TRV_CHECK(begin >= 0 && count >= 0 && count <= size() && begin <= size() - count, "tokens ", begin, " + ",
              count, " of ", size());
    impl_->read(begin, count, out);
}

std::unique_ptr<Tokenizer> TokenStore::tokenizer() const
{
    if (impl_->foreign && impl_->model.empty())
        throw UserError({impl_->path, "has no tokenizer",
                         str("the format (", impl_->format, ") contains ids alone"),
                         "set data.tokenizer to the tokenizer that made them"});
    return tokenizer_from_model(impl_->model, impl_->path);
}

u64 TokenStore::tokens_hash() const { return impl_->hash_tokens(); }

void TokenStore::verify(i64 part, i64 parts) const
{
    TRV_CHECK(part >= 0 && part < parts, "part ", part, " of ", parts);
    for (i64 block = part; block < impl_->blocks(); block += parts)
        if (impl_->foreign)
            (void)impl_->read_block(block);
        else
            impl_->check_block(block);
    if (impl_->foreign)
        return;
    const std::unique_ptr<Tokenizer> stored = tokenizer();
    if (stored->fingerprint() != impl_->fingerprint || stored->vocab_size() != impl_->vocab)
        impl_->damaged("its tokenizer is not the one that was written");
}

} // namespace trivium
