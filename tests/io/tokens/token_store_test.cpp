#include "base/check.hpp"
#include "catch.hpp"
#include "io/chat/conversation.hpp"
#include "io/corpus.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/seal.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/token_store.hpp"

#include <cstdio>
#include <sys/stat.h>

using namespace trivium;

namespace {

/// A tokenizer with a vocabulary that needs 32 bits.
class WideTokenizer final : public Tokenizer {
public:
    i64 vocab_size() const override { return 70000; }
    void encode_part(std::string_view, bool, std::vector<i32>& ids) const override
    {
        ids.insert(ids.end(), {69999, 0, 65536});
    }
    void encode_chat(std::string_view, std::span<const TextSpan>, std::vector<i32>&,
                     std::vector<bool>&) const override
    {
    }
    std::string special_text(i32) const override { return {}; }
    std::size_t cut(std::string_view, std::size_t) const override { return std::string_view::npos; }
    std::string decode(std::span<const i32>) const override { return ""; }
    i32 bos() const override { return 1; }
    i32 eos() const override { return 69998; }
    std::string name() const override { return "wide"; }
    std::string fingerprint() const override { return "wide"; }
    const std::string& model() const override { return model_; }

private:
    std::string model_ = "wide";
};

std::vector<i32> numbers(int count, int seed)
{
    std::vector<i32> ids;
    for (int i = 0; i < count; ++i)
        ids.push_back((i * 37 + seed) % 256);
    return ids;
}

void write_store(const std::string& path, int documents)
{
    TokenStoreWriter writer(path, *make_tokenizer("bytes"));
    for (int d = 0; d < documents; ++d)
        writer.add(numbers(10 * d, d), 10 * d);
    CHECK_FALSE(std::filesystem::exists(path));
    writer.finish();
}

/// Opens and reads all tokens; returns the message of the UserError, or "" if there is none.
std::string read_all(const std::string& path, bool verify)
{
    return message_of<UserError>([&] {
        const TokenStore store = TokenStore::open(path);
        std::vector<i32> ids(std::size_t(store.size()));
        store.read(0, store.size(), ids.data());
        if (verify)
            store.verify();
    });
}

std::string run(const std::string& command)
{
    std::string output;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;)
        output += static_cast<char>(c);
    if (pipe != nullptr)
        ::pclose(pipe);
    return output;
}

} // namespace

TEST_CASE("a token store contains what was written")
{
    const TemporaryFolder folder;
    const std::string path = folder / "t.h5";
    write_store(path, 5);
    const TokenStore store = TokenStore::open(path);
    CHECK(store.documents() == 5);
    CHECK(store.size() == 100 + 5);
    CHECK(store.vocab() == 258);
    CHECK(store.eos() == 257);
    CHECK(store.text_bytes() == 100);
    CHECK(store.fingerprint() == "bytes");
    CHECK(store.tokenizer()->fingerprint() == "bytes");
    for (int d = 0; d < 5; ++d) {
        const i64 begin = store.document_begin(d), count = store.document_begin(d + 1) - begin;
        std::vector<i32> ids(static_cast<std::size_t>(count));
        store.read(begin, count, ids.data());
        std::vector<i32> expected = numbers(10 * d, d);
        expected.push_back(257);
        CHECK(ids == expected);
        CHECK(store.token(begin + count - 1) == 257);
    }
    store.verify();
    // No temporary files are left.
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    // The file contains the tokens as u16: found in its raw bytes, without the code under test.
    const std::string content = get(path);
    std::string raw;
    for (const i32 id : numbers(40, 4)) {
        raw += static_cast<char>(id);
        raw += '\0';
    }
    CHECK(has(content, raw));
}

TEST_CASE("h5dump reads a token store")
{
    if (run("h5dump --version 2>/dev/null").empty())
        return;
    const TemporaryFolder folder;
    write_store(folder / "t.h5", 3);
    const std::string tokens = run("h5dump -d /tokens -y -w 1000 " + folder / "t.h5");
    CHECK(has(tokens, "H5T_STD_U16LE"));
    CHECK(has(tokens, "257, 1, 38, 75, 112, 149, 186, 223, 4, 41, 78, 257, 2, 39,"));
    CHECK(has(run("h5dump -p -H -d /tokens " + folder / "t.h5"), "CONTIGUOUS"));
    CHECK(has(run("h5dump -d /document_offsets -y " + folder / "t.h5"), "0, 1, 12, 33"));
    CHECK(has(run("h5dump -a /tokenizer " + folder / "t.h5"), "\"bytes\""));
}

TEST_CASE("a large vocabulary is stored in 32 bits")
{
    const TemporaryFolder folder;
    TokenStoreWriter writer(folder / "t.h5", WideTokenizer());
    writer.add(WideTokenizer().encode(""), 3);
    writer.finish();
    const TokenStore store = TokenStore::open(folder / "t.h5");
    std::vector<i32> ids(4);
    store.read(0, 4, ids.data());
    CHECK(ids == std::vector<i32>{69999, 0, 65536, 69998});
    CHECK(store.vocab() == 70000);
}

TEST_CASE("a store larger than the copy block, which replaces another store")
{
    const TemporaryFolder folder;
    write_store(folder / "t.h5", 2);
    TokenStoreWriter writer(folder / "t.h5", *make_tokenizer("bytes"));
    const std::vector<i32> ids = numbers(5'000'000, 9);
    writer.add(ids, 5'000'000);
    CHECK(TokenStore::open(folder / "t.h5").documents() == 2); // still the old one
    writer.finish();
    const TokenStore store = TokenStore::open(folder / "t.h5");
    std::vector<i32> found(ids.size());
    store.read(0, i64(ids.size()), found.data());
    CHECK((found == ids));
    store.verify();
}

TEST_CASE("an unfinished writer leaves no files; a store without documents is refused")
{
    const TemporaryFolder folder;
    {
        TokenStoreWriter writer(folder / "t.h5", *make_tokenizer("bytes"));
        writer.add(numbers(10, 1), 10);
    }
    CHECK(std::filesystem::is_empty(folder.path()));
    TokenStoreWriter writer(folder / "t.h5", *make_tokenizer("bytes"));
    CHECK(says(message_of<UserError>([&] { writer.finish(); }), "t.h5", "no document"));
    put(folder / "file", "x");
    CHECK(
        says(message_of<UserError>([&] { TokenStoreWriter(folder / "file/t.h5", *make_tokenizer("bytes")); }),
             "file"));
}

TEST_CASE("errors name missing, foreign and empty files")
{
    const TemporaryFolder folder;
    const auto store_error = [&](const std::string& name) {
        return message_of<UserError>([&] { TokenStore::open(folder / name); });
    };
    CHECK(says(store_error("none.h5"), "none.h5", "no such Trivium token store"));
    put(folder / "zero.h5", "");
    CHECK(says(store_error("zero.h5"), "zero.h5", "is empty"));
    put(folder / "text.h5", sample_text(1000));
    CHECK(says(store_error("text.h5"), "text.h5", "is not a Trivium token store"));
    h5::File other = h5::File::create(folder / "other.h5");
    other.set("vocab", i64{258});
    other.close();
    CHECK(says(store_error("other.h5"), "other.h5", "is not a Trivium token store", "another HDF5 file"));
    h5::File later = h5::File::create(folder / "later.h5", {.reserved = seal_bytes});
    later.close();
    seal_file(folder / "later.h5", "Trivium token store", 99, seal_bytes, 0);
    CHECK(says(store_error("later.h5"), "version 99", "versions 1 to 2",
               "use the program that wrote it, or a later one"));
    seal_file(folder / "later.h5", "Trivium token store", 0, seal_bytes, 0);
    CHECK(says(store_error("later.h5"), "version 0", "this program reads versions 1 to 2",
               "tokenize the text again"));
    // A valid seal, but not the content of a token store.
    seal_file(folder / "later.h5", "Trivium token store", 1, seal_bytes, 0);
    CHECK(says(store_error("later.h5"), "later.h5", "has no attribute 'vocab'"));
    REQUIRE(::mkfifo((folder / "pipe.h5").c_str(), 0600) == 0);
    CHECK(says(store_error("pipe.h5"), "is a pipe, not a Trivium token store")); // no process writes to it
    std::filesystem::create_symlink("pipe.h5", folder / "link-to-pipe.h5");
    CHECK(says(store_error("link-to-pipe.h5"), "is a pipe"));
    put(folder / "sparse.h5", "");
    std::filesystem::resize_file(folder / "sparse.h5", std::uintmax_t{1} << 40);
    CHECK(says(store_error("sparse.h5"), "is not a Trivium token store"));
    write_store(folder / "grown.h5", 3);
    std::filesystem::resize_file(folder / "grown.h5", std::uintmax_t{1} << 40);
    CHECK(says(store_error("grown.h5"), "has grown"));
    write_store(folder / "good.h5", 3);
    std::filesystem::create_symlink("good.h5", folder / "link.h5");
    CHECK(TokenStore::open(folder / "link.h5").documents() == 3); // a link to a store is accepted
    std::filesystem::create_symlink("round.h5", folder / "round.h5");
    CHECK(says(store_error("round.h5"), "is a circular link"));
}

TEST_CASE("a truncated store is an error at any length, never a crash")
{
    const TemporaryFolder folder;
    write_store(folder / "t.h5", 40);
    const std::string whole = get(folder / "t.h5");
    for (std::size_t size = 0; size < whole.size(); size += size < 4096 ? 61 : 997) {
        put(folder / "cut.h5", whole.substr(0, size));
        INFO("cut to " << size << " of " << whole.size());
        CHECK(says(read_all(folder / "cut.h5", false), "cut.h5"));
    }
    put(folder / "cut.h5", whole.substr(0, whole.size() - 1));
    CHECK(says(read_all(folder / "cut.h5", false), "cut.h5", "truncated"));
}

TEST_CASE("reading tokens detects a flipped bit in their block, and never crashes")
{
    const TemporaryFolder folder;
    write_store(folder / "t.h5", 12);
    const std::string whole = get(folder / "t.h5");
    std::string raw;
    for (const i32 id : numbers(110, 11)) {
        raw += static_cast<char>(id);
        raw += '\0';
    }
    const std::size_t tokens = whole.find(raw);
    REQUIRE(tokens != std::string::npos);
    std::string flipped = whole;
    flipped[tokens + 20] = static_cast<char>(flipped[tokens + 20] ^ 4);
    put(folder / "flip.h5", flipped);
    CHECK(says(read_all(folder / "flip.h5", false), "flip.h5",
               "tokens 0 to 671 are not the ones that were written", "data tokenize"));
    CHECK(says(read_all(folder / "flip.h5", true), "flip.h5", "not the ones that were written"));
    // A flipped bit anywhere is an error, and HDF5 never opens damaged metadata.
    for (std::size_t at = 0; at < whole.size(); at += at < 1024 ? 1 : 7) {
        flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
        put(folder / "flip.h5", flipped);
        const std::string message = read_all(folder / "flip.h5", true);
        INFO("byte " << at << ": " << message);
        REQUIRE(says(message, "flip.h5"));
    }
    put(folder / "long.h5", whole + "x");
    CHECK(says(read_all(folder / "long.h5", false), "has grown"));
}

TEST_CASE("a store that is truncated while it is open ends with a message")
{
    const TemporaryFolder folder;
    write_store(folder / "t.h5", 12);
    const TokenStore store = TokenStore::open(folder / "t.h5"), fresh = TokenStore::open(folder / "t.h5");
    (void)store.token(0); // verified
    std::filesystem::resize_file(folder / "t.h5", 100);
    CHECK(says(message_of<UserError>([&] { (void)store.token(0); }), "t.h5", "truncated", "data tokenize"));
    CHECK(says(message_of<UserError>([&] { fresh.verify(); }), "t.h5", "truncated"));
}

TEST_CASE("reading verifies only the blocks that it touches; verify() can be divided into parts")
{
    const TemporaryFolder folder;
    TokenStoreWriter writer(folder / "t.h5", *make_tokenizer("bytes"));
    const std::vector<i32> ids = numbers(1'000'000, 9); // 2 MB: eight blocks of 131072 tokens
    writer.add(ids, 1'000'000);
    writer.finish();
    std::string content = get(folder / "t.h5");
    std::string raw;
    for (int i = 0; i < 200; ++i) {
        raw += static_cast<char>(ids[std::size_t(i)]);
        raw += '\0';
    }
    const std::size_t tokens = content.find(raw), bad = 300'000; // in block 2
    REQUIRE(tokens != std::string::npos);
    content[tokens + 2 * bad] = static_cast<char>(content[tokens + 2 * bad] ^ 1);
    put(folder / "bad.h5", content);
    const TokenStore good = TokenStore::open(folder / "t.h5"), store = TokenStore::open(folder / "bad.h5");
    CHECK(good.tokens_hash() == store.tokens_hash()); // from the stored hashes
    std::vector<i32> out(200'000);
    CHECK_NOTHROW(store.read(0, 200'000, out.data()));
    CHECK_NOTHROW(store.read(400'000, 200'000, out.data()));
    CHECK(store.token(262'143) == ids[262'143]);
    const std::string expected = "tokens 262144 to 393215 are not the ones that were written";
    CHECK(says(message_of<UserError>([&] { store.read(262'140, 5, out.data()); }), "bad.h5", expected));
    CHECK(says(message_of<UserError>([&] { (void)store.token(390'000); }), expected));
    CHECK_NOTHROW(store.verify(0, 4));
    CHECK_NOTHROW(store.verify(1, 4));
    CHECK(says(message_of<UserError>([&] { store.verify(2, 4); }), expected));
    CHECK_NOTHROW(store.verify(3, 4));
    CHECK(says(message_of<UserError>([&] { store.verify(); }), expected));
}
