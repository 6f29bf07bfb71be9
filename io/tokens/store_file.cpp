#include "io/tokens/store_file.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/in_child.hpp"
#include "io/files/plain_file.hpp"
#include "io/files/seal.hpp"
#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <utility>

namespace trivium {

namespace {

constexpr const char* make_it_again = "copy it again whole, or make it again with `trivium data tokenize`";
constexpr Bytes largest_block = Bytes{1} << 30;
constexpr i64 largest_vocab = (i64{1} << 31) - 1;
constexpr i64 largest_guess =
    i64{1} << 24; ///< where nothing says the vocabulary; no tokenizer has as many tokens

} // namespace

StoreFile StoreFile::open(const std::string& path, const TokenStoreOptions& options)
{
    StoreFile file;
    file.path = path;
    if (std::optional<TokenFile> found = find_token_file(path, options.type))
        file.open_foreign(std::move(*found), options);
    else
        file.open_own(options.open_files);
    file.indexed = !file.offsets.empty();
    return file;
}

void StoreFile::damaged(const std::string& problem) const
{
    throw UserError(
        {path, problem, "the token store is damaged", foreign ? write_foreign_again : make_it_again});
}

/// All but the content of the large datasets, with HDF5.
void StoreFile::read_header()
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
        type = stored_type(vocab) == DType::u16 ? TokenType::uint16 : TokenType::uint32;
        width = size_of(type);
        tokens_at_ = place_of(opened, "tokens", stored_type(vocab), size);
        offsets_at_ = place_of(opened, "document_offsets", DType::i64, documents + 1);
        hashes_at_ = place_of(opened, "token_hashes", DType::u64, blocks());
        offsets.resize(static_cast<std::size_t>(documents + 1));
        if (version_ == version_of_store(true)) {
            spans_ = opened.get_integer("trained_spans");
            if (spans_ <= 0 || spans_ > size)
                damaged("has attributes out of range");
            mask_at_ = place_of(opened, "trained_spans", DType::i64, 2 * spans_);
        }
    } catch (const IoError& error) { // HDF5 failed on damaged bytes
        damaged(error.what());
    }
}

void StoreFile::open_own(const std::shared_ptr<OpenFiles>& group)
{
    version_ =
        check_seal(path, {token_store_kind, token_store_version, make_it_again,
                          "tokenize the text again: `trivium data tokenize`", version_of_store(false)});
    file_bytes = file_size(path);
    // The seal finds accidents; a crafted file has a seal that fits, and may crash HDF5.
    try_in_child(path, [&] { read_header(); });
    read_header();
    file_.emplace(group, path, "token store");
    read_bytes(offsets_at_, 8 * static_cast<Bytes>(offsets.size()), offsets.data());
    hashes_.resize(static_cast<std::size_t>(blocks()));
    read_bytes(hashes_at_, 8 * blocks(), hashes_.data());
    checked_ = std::make_unique<std::atomic<bool>[]>(hashes_.size());
    if (offsets.front() != 0 || offsets.back() != size || !std::ranges::is_sorted(offsets))
        damaged("its document offsets are out of order");
    trained = {{0, size}};
    if (spans_ > 0)
        read_mask();
    for (const TokenSpan& span : trained)
        trained_tokens += span.end - span.begin;
}

void StoreFile::read_mask()
{
    static_assert(sizeof(TokenSpan) == 2 * sizeof(i64));
    trained.resize(static_cast<std::size_t>(spans_));
    const Bytes bytes = spans_ * static_cast<Bytes>(sizeof(TokenSpan));
    read_bytes(mask_at_, bytes, trained.data());
    mask_hash_ = hash_block(trained.data(), bytes);
    i64 last = 0;
    for (const TokenSpan& span : trained) {
        if (span.begin < last || span.end <= span.begin || span.end > size)
            damaged("its spans of trained tokens are out of order");
        last = span.end;
    }
}

void StoreFile::open_foreign(TokenFile found, const TokenStoreOptions& options)
{
    file_.emplace(options.open_files, found.path, "file of tokens");
    foreign = true;
    path = std::move(found.path);
    format = std::move(found.format);
    guessed = found.guessed;
    type = found.header.type;
    width = size_of(type);
    tokens_at_ = found.header.begin;
    size = found.header.tokens;
    offsets = std::move(found.header.offsets);
    index_hash_ = hash_block(offsets.data(), static_cast<Bytes>(offsets.size() * sizeof(i64)));
    file_bytes = file_->open()->size();
    block_bytes = hashed_block;
    trained = {{0, size}};
    trained_tokens = size;
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

/// Offset in the file of a dataset, whose bytes are contiguous.
Bytes StoreFile::place_of(const h5::File& opened, const std::string& name, DType of, i64 count) const
{
    const h5::Dataset data = opened.dataset(name);
    if (data.shape() != std::vector<i64>{count} || data.type() != of)
        damaged(str("its dataset '", name, "' does not match its attributes in size or type"));
    const Bytes at = data.file_offset(), end = at + count * size_of(of);
    if (at < 0 || end > file_bytes)
        damaged(str("ends after ", file_bytes, " bytes; its dataset '", name, "' reaches to ", end));
    return at;
}

/// Not from a mapping, which ends the process if the file is truncated.
void StoreFile::read_bytes(Bytes at, Bytes count, void* to) const
{
    const std::shared_ptr<const PlainFile> file = file_->open();
    if (const Bytes now = file->size(); now < at + count)
        damaged(str("now ends after ", now, " bytes: something has truncated it since it was opened"));
    file->read(at, to, count);
}

/// Bytes [at, at + count) of the tokens.
std::vector<unsigned char> StoreFile::token_bytes(Bytes at, Bytes count) const
{
    std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
    read_bytes(tokens_at_ + at, count, bytes.data());
    return bytes;
}

Bytes StoreFile::bytes_of_block(i64 block) const
{
    return std::min(block_bytes, size * width - block * block_bytes);
}

u64 StoreFile::hash_of_block(i64 block) const
{
    const Bytes bytes = bytes_of_block(block);
    return hash_block(token_bytes(block * block_bytes, bytes).data(), bytes);
}

void StoreFile::verify_block(i64 block) const
{
    const i64 begin = block * block_bytes / width, count = bytes_of_block(block) / width;
    if (foreign) {
        std::vector<i32> ids(static_cast<std::size_t>(count));
        read(begin, count, ids.data());
        Activity::of_process().advance();
        return;
    }
    std::atomic<bool>& known = checked_[static_cast<std::size_t>(block)];
    if (known.load(std::memory_order_relaxed))
        return;
    if (hash_of_block(block) != hashes_[static_cast<std::size_t>(block)])
        damaged(str("its tokens ", begin, " to ", begin + count - 1,
                    " are not the ones that were written (their hash differs)"));
    known.store(true, std::memory_order_relaxed);
    Activity::of_process().advance();
}

void StoreFile::read(i64 begin, i64 count, i32* out) const
{
    if (!foreign)
        for (i64 block = begin * width / block_bytes; block * block_bytes < (begin + count) * width; ++block)
            verify_block(block);
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

u64 StoreFile::hash(i64 most) const
{
    if (!foreign)
        return mask_hash_ ? hash_of_hashes({hash_of_hashes(hashes_), *mask_hash_}) : hash_of_hashes(hashes_);
    std::vector<u64> parts{static_cast<u64>(size), static_cast<u64>(width), index_hash_};
    const i64 taken = std::min(most, blocks());
    for (i64 i = 0; i < taken; ++i) {
        parts.push_back(hash_of_block(spread_index(i, taken, blocks())));
        Activity::of_process().advance();
    }
    return hash_of_hashes(parts);
}

} // namespace trivium
