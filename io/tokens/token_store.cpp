#include "io/tokens/token_store.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "io/files/hash.hpp"
#include "io/files/seal.hpp"
#include "io/tokens/store_file.hpp"
#include "io/tokens/store_list.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace trivium {

namespace {

/// UserError unless a file may follow the first one of its store.
void require_same_kind(const StoreFile& file, const StoreFile& first)
{
    const auto require = [&](const char* what, const auto& own, const auto& expected,
                             const char* remedy =
                                 "put only files of one program and one tokenizer together") {
        if (own != expected)
            throw UserError({file.path, str("is not of one kind with ", first.path),
                             str("its ", what, " is ", own, ", that of the other file is ", expected),
                             remedy});
    };
    const auto tokenizer = [](const StoreFile& each) {
        return each.fingerprint.empty() ? std::string("unknown") : each.fingerprint;
    };
    const auto index = [](const StoreFile& each) { return std::string(each.indexed ? "there" : "missing"); };
    require("format", file.format, first.format);
    require("type", name_of(file.type), name_of(first.type),
            file.guessed ? "if all have the same type, set data.token_type (--type)"
                         : "put only files of one type together");
    require("tokenizer", tokenizer(file), tokenizer(first));
    require("vocabulary", file.vocab, first.vocab);
    require("end-of-document token", file.eos, first.eos);
    require("index of documents", index(file), index(first));
}

} // namespace

struct TokenStore::Impl {
    /// Appends a file, which takes over neither tokenizer nor documents.
    void add(StoreFile file)
    {
        if (files.empty()) {
            offsets = std::move(file.offsets);
        } else {
            require_same_kind(file, files.front());
            if (!offsets.empty())
                offsets.pop_back(); // the end of the last document is the begin of the next
            for (const i64 offset : file.offsets)
                offsets.push_back(size() + offset);
            file.model = std::string(); // the first file has it
        }
        file.offsets = std::vector<i64>();
        for (const auto& [begin, end] : file.trained)
            if (!trained.empty() && trained.back().end == size() + begin)
                trained.back().end = size() + end; // across the border of files, or files without a mask
            else
                trained.push_back({size() + begin, size() + end});
        file.trained = std::vector<TokenSpan>();
        begins.push_back(size() + file.size);
        files.push_back(std::move(file));
        Activity::of_process().advance();
    }

    const StoreFile& first() const { return files.front(); }
    i64 size() const { return begins.back(); }

    void read(i64 begin, i64 count, i32* out) const
    {
        auto file = static_cast<std::size_t>(std::ranges::upper_bound(begins, begin) - begins.begin()) - 1;
        for (; count > 0; ++file) {
            const i64 in_file = std::min(count, begins[file + 1] - begin);
            files[file].read(begin - begins[file], in_file, out);
            begin += in_file;
            count -= in_file;
            out += in_file;
        }
    }

    bool knows_documents() const { return !offsets.empty() || first().eos >= 0; }

    void require_documents() const
    {
        if (!knows_documents())
            throw UserError(
                {path, "does not say where its documents end",
                 str("the format (", first().format,
                     ") has no index, and the id that ends documents is unknown"),
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
            std::vector<i32> ids(static_cast<std::size_t>(hashed_block));
            for (i64 begin = 0; begin < size();) {
                const i64 end = std::min(size(), begin + hashed_block);
                read(begin, end - begin, ids.data());
                for (const i32* id = ids.data(); begin < end; ++id)
                    if (++begin; *id == first().eos)
                        found.push_back(begin);
                Activity::of_process().advance();
            }
            if (found.back() != size())
                found.push_back(size());
            found_offsets = std::move(found);
        }
        return found_offsets;
    }

    u64 hash_tokens() const
    {
        constexpr i64 most = 256; ///< blocks
        const std::lock_guard guard(once);
        if (!found_hash) {
            i64 blocks = 0;
            for (const StoreFile& file : files)
                blocks += file.blocks();
            std::vector<u64> hashes;
            for (const StoreFile& file : files)
                hashes.push_back(
                    file.hash(blocks <= most ? most : std::max<i64>(1, most * file.blocks() / blocks)));
            found_hash = files.size() == 1 ? hashes[0] : hash_of_hashes(hashes);
        }
        return *found_hash;
    }

    std::string path;
    std::vector<StoreFile> files;
    std::vector<i64> begins{0}; ///< of each file its first token, then the end
    std::vector<i64> offsets;   ///< documents + 1; empty: no index
    std::vector<TokenSpan> trained;

    mutable std::mutex once; ///< for what is found when it is first asked for
    mutable std::vector<i64> found_offsets;
    mutable std::optional<u64> found_hash;
};

TokenStore::TokenStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenStore::TokenStore(TokenStore&&) noexcept = default;
TokenStore& TokenStore::operator=(TokenStore&&) noexcept = default;
TokenStore::~TokenStore() = default;

TokenStore TokenStore::open(const std::string& name, const TokenStoreOptions& options)
{
    auto impl = std::make_unique<Impl>();
    const bool several = names_several_files(name);
    for (const std::string& path : files_of_store(name)) {
        try {
            impl->add(StoreFile::open(path, options));
        } catch (const UserError& error) {
            if (!several)
                throw;
            throw UserError({"",
                             str(error.what(), "; to leave it out of ", name,
                                 ", move it, or name the others with a pattern such as *.bin"),
                             "", ""});
        }
    }
    impl->path = several ? name : impl->first().path;
    return TokenStore(std::move(impl));
}

const std::string& TokenStore::format() const { return impl_->first().format; }
bool TokenStore::is_own() const { return !impl_->first().foreign; }
TokenType TokenStore::type() const { return impl_->first().type; }
bool TokenStore::type_is_guessed() const { return impl_->first().guessed; }
i64 TokenStore::size() const { return impl_->size(); }
i64 TokenStore::vocab() const { return impl_->first().vocab; }
i32 TokenStore::eos() const { return static_cast<i32>(impl_->first().eos); }
const std::string& TokenStore::path() const { return impl_->path; }
std::string TokenStore::content() const { return str(size(), " tokens, ", hex(tokens_hash())); }
const std::string& TokenStore::fingerprint() const { return impl_->first().fingerprint; }
bool TokenStore::knows_documents() const { return impl_->knows_documents(); }
void TokenStore::require_documents() const { impl_->require_documents(); }
i64 TokenStore::documents() const { return static_cast<i64>(impl_->document_offsets().size()) - 1; }

Bytes TokenStore::text_bytes() const
{
    Bytes bytes = 0;
    for (const StoreFile& file : impl_->files)
        bytes += file.text_bytes;
    return bytes;
}

Bytes TokenStore::file_bytes() const
{
    Bytes bytes = 0;
    for (const StoreFile& file : impl_->files)
        bytes += file.file_bytes;
    return bytes;
}

std::vector<TokenStore::File> TokenStore::files() const
{
    std::vector<File> files;
    for (const StoreFile& file : impl_->files)
        files.push_back({file.path, file.size, file.file_bytes, file.trained_tokens});
    return files;
}

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
        begins[i] = begin + i == 0 || ids[static_cast<std::size_t>(begin + i - 1 - first)] == eos();
}

bool TokenStore::has_mask() const { return trained_tokens() < size(); }

i64 TokenStore::trained_tokens() const
{
    i64 tokens = 0;
    for (const StoreFile& file : impl_->files)
        tokens += file.trained_tokens;
    return tokens;
}

std::vector<TokenSpan> TokenStore::trained(i64 begin, i64 count) const
{
    std::vector<TokenSpan> parts;
    for (auto at = std::ranges::upper_bound(impl_->trained, begin, {}, &TokenSpan::end);
         at != impl_->trained.end() && at->begin < begin + count; ++at)
        parts.push_back({std::max(begin, at->begin), std::min(begin + count, at->end)});
    return parts;
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
    const StoreFile& file = impl_->first();
    if (file.foreign && file.model.empty())
        throw UserError({impl_->path, "has no tokenizer",
                         str("the format (", file.format, ") contains ids alone"),
                         "set data.tokenizer to the tokenizer that made them"});
    return tokenizer_from_model(file.model, file.path);
}

u64 TokenStore::tokens_hash() const { return impl_->hash_tokens(); }

bool names_mask(const std::string& name)
{
    try {
        return std::ranges::any_of(files_of_store(name), [](const std::string& path) {
            return version_in_seal(path, token_store_kind) >= version_of_store(true);
        });
    } catch (const Error&) { // the reader of the store reports it
        return false;
    }
}

void TokenStore::verify(i64 part, i64 parts) const
{
    TRV_CHECK(part >= 0 && part < parts, "part ", part, " of ", parts);
    i64 block = part; // of a file
    for (const StoreFile& file : impl_->files) {
        for (; block < file.blocks(); block += parts)
            file.verify_block(block);
        block -= file.blocks();
    }
    const StoreFile& file = impl_->first();
    if (file.foreign)
        return;
    const std::unique_ptr<Tokenizer> stored = tokenizer();
    if (stored->fingerprint() != file.fingerprint || stored->vocab_size() != file.vocab)
        file.damaged("its tokenizer is not the one that was written");
}

} // namespace trivium
