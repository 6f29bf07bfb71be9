// Token stores of other programs: read in place, with the same tokens and documents as a store of Trivium;
// damaged files are errors that name the file.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "io/stored_corpus.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/token_store.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

using namespace trivium;
using foreign::Numbers;
using foreign::packed;

namespace {

std::string open_error(const std::string& path, TokenType type = TokenType::automatic)
{
    return message_of<UserError>([&] { (void)TokenStore::open(path, bytes_made_it(type)); });
}

} // namespace

TEST_CASE("each format of another program has the tokens and documents of the store of Trivium")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const TokenStore own = TokenStore::open(folder / "own.h5");
    const Numbers& ids = corpus.ids;
    const std::string u16 = packed<std::uint16_t>(ids), u32 = packed<std::uint32_t>(ids);
    const auto same = [&](const std::string& name, const std::string& format, const std::string& type,
                          TokenType stated = TokenType::automatic) {
        const TokenStore store = TokenStore::open(folder / name, bytes_made_it(stated));
        require_same(store, own);
        CHECK(store.format() == format);
        CHECK(name_of(store.type()) == type);
    };

    const std::string megatron = "Megatron .bin and .idx";
    put(folder / "m.bin", u16);
    put(folder / "m.idx", foreign::megatron_index(8, 2, corpus.lengths, corpus.bounds));
    for (const char* name : {"m", "m.bin", "m.idx"})
        same(name, megatron, "uint16");
    put(folder / "modes.bin", packed<std::int32_t>(ids));
    put(folder / "modes.idx", foreign::megatron_index(4, 4, corpus.lengths, corpus.bounds) +
                                  std::string(corpus.lengths.size(), '\1'));
    same("modes", megatron, "int32");
    // Documents of several sequences, one of which is empty.
    Numbers pieces, bounds{0};
    for (const std::int64_t length : corpus.lengths) {
        pieces.insert(pieces.end(), {length / 2, 0, length - length / 2});
        bounds.push_back(static_cast<std::int64_t>(pieces.size()));
    }
    put(folder / "pieces.bin", packed<std::int64_t>(ids));
    put(folder / "pieces.idx", foreign::megatron_index(5, 8, pieces, bounds));
    same("pieces", megatron, "int64");

    put(folder / "nano.bin", u16);
    same("nano.bin", "nanoGPT .bin", "uint16");
    put(folder / "fork.bin", u32);
    same("fork.bin", "nanoGPT .bin", "uint32");
    same("fork.bin", "nanoGPT .bin", "int32", TokenType::int32);
    put(folder / "wide.bin", packed<std::int64_t>(ids));
    same("wide.bin", "nanoGPT .bin", "uint64");
    put(folder / "gpt2.bin", foreign::llmc_header(20240520, 1, corpus.size()) + u16);
    same("gpt2.bin", "llm.c .bin", "uint16");
    for (const int version : {7, 1}) {
        put(folder / "llama3.bin", foreign::llmc_header(20240801, version, corpus.size()) + u32);
        same("llama3.bin", "llm.c .bin", "uint32");
    }
    put(folder / "olmo.npy", u32);
    same("olmo.npy", "OLMo .npy", "uint32");
    for (const int version : {1, 2, 3}) {
        const std::string shape = str("(", corpus.size(), ",)");
        put(folder / "numpy.npy", foreign::numpy_header("<u2", shape, "False", version) + u16);
        same("numpy.npy", "NumPy .npy", "uint16");
        put(folder / "numpy.npy",
            foreign::numpy_header("<i8", shape, "False", version) + packed<std::int64_t>(ids));
        same("numpy.npy", "NumPy .npy", "int64");
    }
    put(folder / "d.ds", u16);
    same("d.ds", "datatrove .ds", "uint16"); // without an index
    put(folder / "d.ds.index", packed<std::uint64_t>(corpus.ends));
    same("d.ds", "datatrove .ds", "uint16");
    put(folder / "d.ds.metadata", str("gpt2|2\n", corpus.size(), "\n1 kT"));
    same("d.ds", "datatrove .ds", "uint16");
    put(folder / "d.ds", u32);
    put(folder / "d.ds.metadata", str("gpt2|4\n", corpus.size(), "\n1 kT"));
    same("d.ds", "datatrove .ds", "uint32");
    std::filesystem::remove(folder / "d.ds.index");
    same("d.ds", "datatrove .ds", "uint32");
    put(folder / "d.ds.metadata", str("gpt2\n", corpus.size(), "\n1 kT"));
    same("d.ds", "datatrove .ds", "uint32");
}

TEST_CASE("the type of ids without a header follows from the content, for small and large vocabularies")
{
    const TemporaryFolder folder;
    std::mt19937 random(7);
    const auto type_of = [&](const std::string& content) {
        put(folder / "t.bin", content);
        return std::string(name_of(TokenStore::open(folder / "t.bin").type()));
    };
    for (const unsigned vocab : {2u, 12u, 258u, 50257u, 65536u, 200000u, 900000u}) {
        INFO("vocabulary " << vocab);
        Numbers ids;
        for (int i = 0; i < 400; ++i)
            ids.push_back(std::int64_t(random() % vocab));
        if (vocab <= 65536)
            CHECK(type_of(packed<std::uint16_t>(ids)) == "uint16");
        CHECK(type_of(packed<std::uint32_t>(ids)) == "uint32");
        CHECK(type_of(packed<std::uint64_t>(ids)) == "uint64");
    }
}

TEST_CASE("an id outside the vocabulary is an error with its place, in what was read and in verify()")
{
    const TemporaryFolder folder;
    Numbers ids(300'000, 7);
    ids[200'001] = 300;
    put(folder / "t.bin", packed<std::uint16_t>(ids));
    const TokenStore store = TokenStore::open(folder / "t.bin", {TokenType::uint16, 300});
    std::vector<std::int32_t> out(1000);
    CHECK_NOTHROW(store.read(1000, 1000, out.data()));
    const auto error = message_of<UserError>([&] { store.read(200'000, 1000, out.data()); });
    CHECK(says(error, "t.bin", "its token 200001 is 300, outside the vocabulary of 300", "uint16"));
    CHECK(message_of<UserError>([&] { store.verify(); }) == error);
    CHECK_NOTHROW(store.verify(0, 2)); // two blocks of 131072 before, the token is in the second
    CHECK(message_of<UserError>([&] { store.verify(1, 2); }) == error);
    CHECK_NOTHROW(TokenStore::open(folder / "t.bin", {TokenType::uint16, 301}).verify());
    // Negative ids, and ids that no tokenizer has, of a type that was named or guessed wrongly.
    put(folder / "n.bin", packed<std::int16_t>({1, 2, -3, 4}));
    CHECK(
        says(message_of<UserError>([&] { TokenStore::open(folder / "n.bin", {TokenType::int16}).verify(); }),
             "its token 2 is -3"));
    CHECK(
        says(message_of<UserError>([&] { TokenStore::open(folder / "n.bin", {TokenType::uint64}).verify(); }),
             "its token 0 is 1407361998782465", "no tokenizer", "data.token_type"));
    CHECK(says(message_of<UserError>([&] {
                   (void)TokenStore::open(folder / "n.bin", {TokenType::int16, 100, 100});
               }),
               "n.bin", "data.eos"));
}

TEST_CASE("documents without an index end with eos; without eos they are unknown")
{
    const TemporaryFolder folder;
    put(folder / "t.bin", packed<std::uint16_t>({9, 1, 2, 9, 9, 3, 4}));
    const TokenStore store = TokenStore::open(folder / "t.bin", {TokenType::uint16, 10, 9});
    CHECK(store.knows_documents());
    REQUIRE(store.documents() == 4);
    std::vector<i64> begins;
    for (i64 d = 0; d <= 4; ++d)
        begins.push_back(store.document_begin(d));
    CHECK(begins == std::vector<i64>{0, 1, 4, 5, 7});
    // An index wins over eos: documents of Megatron-LM may lack one.
    put(folder / "t.ds", packed<std::uint16_t>({9, 1, 2, 9, 9, 3, 4}));
    put(folder / "t.ds.index", packed<std::uint64_t>({2, 2, 7}));
    const TokenStore indexed = TokenStore::open(folder / "t.ds", {TokenType::automatic, 10, 9});
    CHECK(indexed.documents() == 3);
    bool starts[6];
    indexed.mark_begins(1, 6, starts);
    CHECK(std::vector<bool>(starts, starts + 6) ==
          std::vector<bool>{false, true, false, false, false, false});
    store.mark_begins(1, 6, starts);
    CHECK(std::vector<bool>(starts, starts + 6) == std::vector<bool>{true, false, false, true, true, false});
    const TokenStore open = TokenStore::open(folder / "t.bin");
    CHECK(says(message_of<UserError>([&] { open.mark_begins(1, 6, starts); }), "t.bin", "data.eos"));
    CHECK_FALSE(open.knows_documents());
    CHECK(says(message_of<UserError>([&] { (void)open.documents(); }), "t.bin", "data.eos"));
    CHECK(says(message_of<UserError>([&] { (void)open.tokenizer(); }), "t.bin", "data.tokenizer"));
    CHECK(open.fingerprint().empty());
    CHECK(open.vocab() == 0);
}

TEST_CASE("files of more than 4 GiB: the last tokens, their hash, and what was cut off meanwhile")
{
    const TemporaryFolder folder;
    const std::string path = folder / "large.npy";
    const i64 tokens = (i64{5} << 30) / 2;
    put(path, foreign::numpy_header("<u2", str("(", tokens, ",)")));
    const auto begin = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, begin + (std::uintmax_t{5} << 30)); // without blocks on the disk
    const std::string before = TokenStore::open(path).content();
    {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(-6, std::ios::end);
        file << packed<std::uint16_t>({11, 12, 13});
    }
    const TokenStore store = TokenStore::open(path);
    CHECK(store.size() == tokens);
    std::vector<std::int32_t> ids(4);
    store.read(tokens - 4, 4, ids.data());
    CHECK(ids == std::vector<std::int32_t>{0, 11, 12, 13});
    CHECK(store.content() != before);
    std::filesystem::resize_file(path, begin + (std::uintmax_t{4} << 30));
    CHECK(says(message_of<UserError>([&] { store.read(tokens - 4, 4, ids.data()); }), "large.npy",
               "truncated"));
}

TEST_CASE("the content of a store is its tokens, their type and its documents, not its path")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const auto content = [&](const std::string& name, const std::string& ids, const std::string& index) {
        put(folder / name, ids);
        put(folder / (name + ".index"), index);
        return TokenStore::open(folder / name).content();
    };
    const std::string index = packed<std::uint64_t>(corpus.ends), ids = packed<std::uint16_t>(corpus.ids);
    const std::string first = content("a.ds", ids, index);
    CHECK(has(first, str(corpus.size(), " tokens, ")));
    CHECK(content("b.ds", ids, index) == first);
    std::string other = ids;
    other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
    CHECK(content("b.ds", other, index) != first);
    Numbers ends = corpus.ends;
    --ends[3];
    CHECK(content("b.ds", ids, packed<std::uint64_t>(ends)) != first);
}

TEST_CASE("damaged files of other programs are refused with one message")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const std::int64_t size = corpus.size();
    const std::string ids = packed<std::uint16_t>(corpus.ids), shape = str("(", size, ",)");
    const auto refused = [&](const std::string& name, const std::string& content, const std::string& what) {
        put(folder / name, content);
        const std::string message = open_error(folder / name);
        INFO(message);
        CHECK(says(message, name.substr(0, name.find('.')), what));
        CHECK(has(message, "remedy: "));
    };
    refused("a.bin", ids + "x", str("has ", 2 * size + 1, " bytes, no multiple of the 2 of uint16"));
    put(folder / "a.bin", ids + "xy");
    CHECK(says(open_error(folder / "a.bin", TokenType::int64), "no multiple of the 8 of int64",
               "data.token_type"));
    refused("a.bin", "", "is empty");
    refused("a.npy", "", "is empty");
    refused("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "Git LFS");
    refused("a.txt", ids, "is not a Trivium token store");

    const auto llmc = [&](std::int64_t magic, std::int64_t version, std::int64_t tokens) {
        return foreign::llmc_header(magic, version, tokens);
    };
    refused("c.bin", llmc(20240520, 1, size).substr(0, 600), "is truncated");
    refused("c.bin", llmc(20240520, 1, size) + ids.substr(2), "is truncated");
    refused("c.bin", llmc(20240520, 1, size) + ids + "xx", "is longer");
    refused("c.bin", llmc(20240520, 1, size) + ids.substr(1), "is truncated");
    refused("c.bin", llmc(20240520, 2, size) + ids, "version 2");
    refused("c.bin", llmc(20240801, 2, size) + ids + ids, "version 2");
    refused("c.bin", llmc(20240520, 1, 0), "contains no tokens");
    refused("c.bin", llmc(20240520, 1, -5) + ids, "contains no tokens");

    const auto numpy = [&](const std::string& type, const std::string& extents,
                           const std::string& fortran = "False") {
        return foreign::numpy_header(type, extents, fortran) + ids;
    };
    refused("n.npy", numpy(">u2", shape), "is big-endian");
    refused("n.npy", numpy("<f4", shape), "not integers");
    refused("n.npy", numpy("<u2", shape, "True"), "Fortran");
    refused("n.npy", numpy("<u2", str("(", size / 2, ", 2)")), "one-dimensional");
    refused("n.npy", numpy("<u2", "()"), "one-dimensional");
    refused("n.npy", numpy("<u2", str("(", size + 1, ",)")), "is truncated");
    refused("n.npy", numpy("<u2", str("(", size - 1, ",)")), "is longer");
    refused("n.npy", numpy("<u2", "(99999999999999999999,)"), "one-dimensional");
    refused("n.npy", numpy("<u2", shape).substr(0, 20), "is truncated");
    refused("n.npy", numpy("<u2", shape).substr(0, 8), "is truncated");

    refused("d.ds", ids.substr(1), "no multiple");
    put(folder / "d.ds.index", packed<std::uint64_t>(corpus.ends));
    refused("d.ds", ids.substr(2), "does not have the tokens of its index");
    refused("d.ds", ids + ids + ids, "does not have the tokens of its index");
    put(folder / "d.ds.metadata", str("gpt2|4\n", size, "\n1 kT"));
    refused("d.ds", ids, "does not have the tokens of its metadata");
    put(folder / "d.ds.metadata", str("gpt2|2\n", size + 1, "\n1 kT"));
    refused("d.ds", ids, "does not have the tokens of its metadata");
    std::filesystem::remove(folder / "d.ds.metadata");
    put(folder / "d.ds", ids);
    const auto index_refused = [&](const std::string& index, const std::string& what) {
        put(folder / "d.ds.index", index);
        CHECK(says(open_error(folder / "d.ds"), "d.ds.index", what));
    };
    index_refused("", "is empty");
    index_refused("1234", "is truncated");
    index_refused(packed<std::uint64_t>({5, 4, size}), "the end of document 1 is before");
    index_refused(packed<std::uint64_t>({5, -1}), "the end of document 1 is before");

    put(folder / "m.bin", ids);
    const auto megatron_refused = [&](const std::string& index, const std::string& what) {
        put(folder / "m.idx", index);
        const std::string message = open_error(folder / "m.bin");
        INFO(message);
        CHECK(says(message, what));
        CHECK((has(message, "m.idx") || has(message, "m.bin")));
    };
    const std::string index = foreign::megatron_index(8, 2, corpus.lengths, corpus.bounds);
    megatron_refused("", "is not an index of Megatron-LM");
    megatron_refused("TNTIDX" + std::string(100, '\0'), "old format TNTIDX");
    megatron_refused(index.substr(0, 20), "is truncated");
    megatron_refused(index.substr(0, index.size() - 1), "is truncated");
    megatron_refused(index + "x", "is longer");
    const auto changed = [&](std::size_t at, char to) {
        std::string other = index;
        other[at] = to;
        return other;
    };
    megatron_refused(changed(9, 2), "version 2");
    megatron_refused(changed(17, 6), "have type 6");
    megatron_refused(changed(17, 77), "have type 77");
    megatron_refused(changed(25, '\x7f'), "is truncated"); // 2^62 sequences
    megatron_refused(foreign::megatron_index(4, 4, corpus.lengths, corpus.bounds),
                     "does not have the tokens of its index");
    megatron_refused(foreign::megatron_index(8, 4, corpus.lengths, corpus.bounds),
                     "is not where the ones before it end");
    for (const Numbers& bounds :
         {Numbers{}, Numbers{0}, Numbers{1, 30}, Numbers{0, 29}, Numbers{0, 20, 10, 30}})
        megatron_refused(foreign::megatron_index(8, 2, corpus.lengths, bounds),
                         "has documents that are not its sequences");
    put(folder / "m.idx", index);
    put(folder / "m.bin", ids.substr(2));
    CHECK(says(open_error(folder / "m"), "m.bin", "does not have the tokens of its index"));
    std::filesystem::remove(folder / "m.bin");
    CHECK(says(open_error(folder / "m.idx"), "m.bin", "there is no such"));
}

TEST_CASE("headers and indices with changed bytes: an error that names the file, or tokens within bounds")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const std::string ids = packed<std::uint16_t>(corpus.ids);
    const auto sweep = [&](const std::string& header, const std::string& opened,
                           const std::function<void(const std::string&)>& write) {
        int refused = 0;
        for (std::size_t at = 0; at < header.size(); ++at)
            for (const int change : {1, 0x80}) {
                std::string other = header;
                other[at] = static_cast<char>(other[at] ^ change);
                write(other);
                bool in_order = true;
                const std::string message = message_of<UserError>([&] {
                    const TokenStore store = TokenStore::open(folder / opened, bytes_made_it());
                    store.verify();
                    for (i64 d = 0; d < store.documents(); ++d)
                        in_order &= store.document_begin(d) <= store.document_begin(d + 1);
                    in_order &= store.document_begin(store.documents()) == store.size();
                });
                INFO("byte " << at << ": " << message);
                REQUIRE(in_order);
                REQUIRE((message.empty() || says(message, folder.path())));
                refused += message.empty() ? 0 : 1;
            }
        return refused;
    };
    put(folder / "m.bin", ids);
    const std::string index = foreign::megatron_index(8, 2, corpus.lengths, corpus.bounds);
    CHECK(sweep(index, "m", [&](const std::string& other) { put(folder / "m.idx", other); }) >
          int(2 * index.size()) - 2 * 8 * int(corpus.bounds.size()));
    const std::string numpy = foreign::numpy_header("<u2", str("(", corpus.size(), ",)"));
    CHECK(sweep(numpy, "n.npy", [&](const std::string& other) { put(folder / "n.npy", other + ids); }) > 40);
    const std::string llmc = foreign::llmc_header(20240520, 1, corpus.size()).substr(0, 12);
    CHECK(sweep(llmc, "c.bin", [&](const std::string& other) {
              put(folder / "c.bin", other + std::string(1012, '\0') + ids);
          }) == 24);
}
