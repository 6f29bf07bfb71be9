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

#include <algorithm>
#include <atomic>
#include <fstream>
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
        throw UserError({path, problem, "the token store is damaged", make_it_again});
    }

    /// All but the content of the large datasets, with HDF5.
    void read_header()
    {
        try {
            const h5::File opened = h5::File::open(path);
            vocab = opened.get_integer("vocab");
            documents = opened.get_integer("documents");
            text_bytes = opened.get_integer("text_bytes");
            size = opened.get_integer("tokens");
            const i64 end_of_document = opened.get_integer("eos");
            fingerprint = opened.get_string("tokenizer");
            block_bytes = opened.get_integer("block_bytes");
            model = opened.read_bytes("tokenizer_model");
            if (vocab <= 0 || vocab > (i64{1} << 31) - 1 || end_of_document < 0 || end_of_document >= vocab ||
                documents <= 0 || size < documents || size > file_bytes || documents > file_bytes ||
                text_bytes < 0 || block_bytes < 4 || block_bytes > largest_block || block_bytes % 4 != 0)
                damaged("has attributes out of range");
            eos = static_cast<i32>(end_of_document);
            width = width_for(vocab);
            tokens_at = place_of(opened, "tokens", type_for(vocab), size);
            offsets_at = place_of(opened, "document_offsets", DType::i64, documents + 1);
            hashes_at = place_of(opened, "token_hashes", DType::u64, blocks());
        } catch (const IoError& error) { // HDF5 failed on damaged bytes
            damaged(error.what());
        }
    }

    i64 blocks() const { return ceil_div(size * width, block_bytes); }

    /// Offset in the file of a dataset, whose bytes are contiguous.
    Bytes place_of(const h5::File& opened, const std::string& name, DType type, i64 count) const
    {
        const h5::Dataset data = opened.dataset(name);
        if (data.shape() != std::vector<i64>{count} || data.type() != type)
            damaged(str("its dataset '", name, "' does not match its attributes in size or type"));
        const Bytes at = data.file_offset(), end = at + count * size_of(type);
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

    /// Verifies a block of the tokens unless that is done.
    void check_block(i64 block) const
    {
        std::atomic<bool>& known = checked[static_cast<std::size_t>(block)];
        if (known.load(std::memory_order_relaxed))
            return;
        const Bytes at = block * block_bytes, bytes = std::min(block_bytes, size * width - at);
        if (hash_block(token_bytes(at, bytes).data(), bytes) != hashes[static_cast<std::size_t>(block)])
            damaged(str("its tokens ", at / width, " to ", (at + bytes) / width - 1,
                        " are not the ones that were written (their hash differs)"));
        known.store(true, std::memory_order_relaxed);
        Activity::of_process().advance();
    }

    void check_tokens(i64 begin, i64 count) const
    {
        for (i64 block = begin * width / block_bytes; block * block_bytes < (begin + count) * width; ++block)
            check_block(block);
    }

    /// Little-endian.
    i32 token(const unsigned char* bytes) const
    {
        return width == 2 ? bytes[0] | bytes[1] << 8
                          : static_cast<i32>(bytes[0] | bytes[1] << 8 | bytes[2] << 16 |
                                             static_cast<u64>(bytes[3]) << 24);
    }

    std::string path, fingerprint, model;
    i64 size = 0, vocab = 0, documents = 0;
    i32 eos = 0;
    Bytes text_bytes = 0, file_bytes = 0, width = 2, block_bytes = 0;
    std::vector<i64> offsets;                     ///< documents + 1
    std::vector<u64> hashes;                      ///< of blocks
    std::unique_ptr<std::atomic<bool>[]> checked; ///< blocks that were verified
    std::optional<PlainFile> file;
    Bytes tokens_at = 0, offsets_at = 0, hashes_at = 0; ///< offsets in the file
};

TokenStore::TokenStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenStore::TokenStore(TokenStore&&) noexcept = default;
TokenStore& TokenStore::operator=(TokenStore&&) noexcept = default;
TokenStore::~TokenStore() = default;

TokenStore TokenStore::open(const std::string& path)
{
    auto impl = std::make_unique<Impl>();
    Impl& s = *impl;
    s.path = path;
    check_seal(path, {kind, version, make_it_again, "tokenize the text again: `trivium data tokenize`"});
    s.file_bytes = file_size(path);
    // The seal finds accidents; a crafted file has a seal that fits, and may crash HDF5.
    try_in_child(path, [&] { s.read_header(); });
    s.read_header();
    s.file = PlainFile::open(path, "token store", PlainFile::Links::follow);
    s.offsets.resize(static_cast<std::size_t>(s.documents + 1));
    s.read_bytes(s.offsets_at, 8 * (s.documents + 1), s.offsets.data());
    s.hashes.resize(static_cast<std::size_t>(s.blocks()));
    s.read_bytes(s.hashes_at, 8 * s.blocks(), s.hashes.data());
    s.checked = std::make_unique<std::atomic<bool>[]>(s.hashes.size());
    if (s.offsets.front() != 0 || s.offsets.back() != s.size || !std::ranges::is_sorted(s.offsets))
        s.damaged("its document offsets are out of order");
    return TokenStore(std::move(impl));
}

i64 TokenStore::size() const { return impl_->size; }
i64 TokenStore::vocab() const { return impl_->vocab; }
i64 TokenStore::documents() const { return impl_->documents; }
Bytes TokenStore::text_bytes() const { return impl_->text_bytes; }
Bytes TokenStore::file_bytes() const { return impl_->file_bytes; }
i32 TokenStore::eos() const { return impl_->eos; }
const std::string& TokenStore::path() const { return impl_->path; }
std::string TokenStore::content() const { return str(impl_->size, " tokens, ", hex(tokens_hash())); }
const std::string& TokenStore::fingerprint() const { return impl_->fingerprint; }

i64 TokenStore::document_begin(i64 d) const
{
    TRV_CHECK(d >= 0 && d <= documents(), "document ", d, " of ", documents());
    return impl_->offsets[static_cast<std::size_t>(d)];
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
    impl_->check_tokens(begin, count);
    const i64 vocab = impl_->vocab, width = impl_->width;
    const std::vector<unsigned char> bytes = impl_->token_bytes(begin * width, count * width);
    bool all_known = true;
    for (i64 i = 0; i < count; ++i) {
        out[i] = impl_->token(bytes.data() + i * width);
        all_known &= out[i] >= 0 && out[i] < vocab;
    }
    if (!all_known) // it would index past the embedding table
        impl_->damaged(str("has a token beyond its vocabulary of ", vocab, ", near token ", begin));
}

std::unique_ptr<Tokenizer> TokenStore::tokenizer() const
{
    return tokenizer_from_model(impl_->model, impl_->path);
}

u64 TokenStore::tokens_hash() const
{
    return hash_block(impl_->hashes.data(), static_cast<Bytes>(impl_->hashes.size() * sizeof(u64)));
}

void TokenStore::verify(i64 part, i64 parts) const
{
    TRV_CHECK(part >= 0 && part < parts, "part ", part, " of ", parts);
    for (auto block = static_cast<std::size_t>(part); block < impl_->hashes.size();
         block += static_cast<std::size_t>(parts))
        impl_->check_block(static_cast<i64>(block));
    const std::unique_ptr<Tokenizer> stored = tokenizer();
    if (stored->fingerprint() != impl_->fingerprint || stored->vocab_size() != impl_->vocab)
        impl_->damaged("its tokenizer is not the one that was written");
}

} // namespace trivium
