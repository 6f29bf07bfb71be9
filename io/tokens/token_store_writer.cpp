// Writes token stores.
#include "base/check.hpp"
#include "base/cores.hpp"
#include "io/files/blocks.hpp"
#include "io/files/files.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/plain_file.hpp"
#include "io/files/seal.hpp"
#include "io/tokens/store_file.hpp"

#include <algorithm>
#include <future>
#include <unistd.h>
#include <vector>

namespace trivium {

namespace {

constexpr Bytes copied_at_once = Bytes{4} << 20;

} // namespace

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
        std::uint32_t largest = 0; // negative ones become large
        for (const i32 id : ids)
            largest = std::max(largest, static_cast<std::uint32_t>(id));
        TRV_CHECK(ids.empty() || largest < vocab, "token ", static_cast<i32>(largest), " of a vocabulary of ",
                  vocab);
        const void* stored = ids.data();
        if (stored_type(vocab) == DType::u16) {
            narrow.assign(ids.begin(), ids.end());
            stored = narrow.data();
        }
        const auto count = static_cast<i64>(ids.size());
        token_blocks.write(static_cast<const std::byte*>(stored), count * size_of(stored_type(vocab)));
        tokens += count;
    }

    void train(i64 begin, i64 end)
    {
        if (begin == end)
            return;
        if (!trained.empty() && trained.back().end == begin)
            trained.back().end = end;
        else
            trained.push_back({begin, end});
    }
    bool has_mask() const { return trained != std::vector<TokenSpan>{{0, tokens}}; }

    /// Copies a raw file to that place of another. Several threads, because the tokenizing ones have ended.
    static void copy(const std::string& raw, const std::string& to, Bytes begin)
    {
        const PlainFile from = PlainFile::open(raw, "temporary file");
        PlainFile file = PlainFile::open_to_write(to);
        const Bytes bytes = from.size();
        const i64 parts = std::clamp<i64>(usable_core_count(), 1, 4);
        std::vector<std::future<void>> copies;
        for (i64 part = 0; part < parts; ++part)
            copies.push_back(std::async(std::launch::async, [&, part] {
                std::vector<std::byte> block(static_cast<std::size_t>(copied_at_once));
                const Bytes end = bytes / parts * (part + 1) + (part + 1 == parts ? bytes % parts : 0);
                for (Bytes at = bytes / parts * part, size = 0; at < end; at += size) {
                    size = std::min(end - at, copied_at_once);
                    from.read(at, block.data(), size);
                    file.write(begin + at, block.data(), size);
                }
            }));
        for (std::future<void>& copy : copies)
            copy.get();
        file.close();
    }

    std::string path, raw_tokens, raw_offsets;
    i64 vocab;
    i32 eos;
    std::string fingerprint, model;
    // HDF5's contiguous layout needs the size first, so tokens and offsets go to temporary files until then.
    PlainFile token_file;
    BlockWriter token_blocks;
    FileWriter offset_file;
    std::vector<std::uint16_t> narrow;
    i64 tokens = 0, documents = 0;
    Bytes text_bytes = 0;
    std::vector<TokenSpan> trained;
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
    const i64 begin = impl_->tokens;
    impl_->put(ids);
    impl_->put({&impl_->eos, 1});
    impl_->train(begin, impl_->tokens);
    ++impl_->documents;
    impl_->text_bytes += text_bytes;
}

void TokenStoreWriter::add_whole(std::span<const i32> ids, std::span<const TokenSpan> trained,
                                 Bytes text_bytes)
{
    const i64 begin = impl_->tokens;
    impl_->offset_file.write(&begin, sizeof begin);
    impl_->put(ids);
    for (const TokenSpan& span : trained) {
        TRV_CHECK(span.begin <= span.end && begin + span.end <= impl_->tokens, "trained tokens ", span.begin,
                  " to ", span.end, " of ", ids.size());
        impl_->train(begin + span.begin, begin + span.end);
    }
    ++impl_->documents;
    impl_->text_bytes += text_bytes;
}

void TokenStoreWriter::finish()
{
    Impl& w = *impl_;
    if (w.documents == 0)
        throw UserError({w.path, "no document to store", "the input has no text", "name files with text"});
    if (w.trained.empty())
        throw UserError({w.path, "no token to train", "no document has a trained token",
                         "name files with answers of an assistant, or text"});
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
        if (w.has_mask()) {
            const auto spans = static_cast<i64>(w.trained.size());
            file.set("trained_spans", spans);
            file.create_dataset("trained_spans", DType::i64, {2 * spans})
                .write(0, 2 * spans, DType::i64, w.trained.data());
        }
        const DType type = stored_type(w.vocab);
        const Bytes offsets =
            file.create_dataset("document_offsets", DType::i64, {w.documents + 1}).file_offset();
        const Bytes begin = file.create_dataset("tokens", type, {w.tokens}).file_offset();
        file.close();
        Impl::copy(w.raw_offsets, temporary, offsets);
        Impl::copy(w.raw_tokens, temporary, begin);
        // The seal skips the tokens: their blocks have separate hashes, verified when they are first read.
        seal_file(temporary, token_store_kind, version_of_store(w.has_mask()), begin,
                  w.tokens * size_of(type));
    });
}

i64 TokenStoreWriter::tokens() const { return impl_->tokens; }
i64 TokenStoreWriter::trained_tokens() const
{
    i64 tokens = 0;
    for (const TokenSpan& span : impl_->trained)
        tokens += span.end - span.begin;
    return tokens;
}
i64 TokenStoreWriter::documents() const { return impl_->documents; }
Bytes TokenStoreWriter::text_bytes() const { return impl_->text_bytes; }

} // namespace trivium
