// Folders and patterns of files as one token store.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "io/stored_corpus.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/token_store.hpp"

#include <filesystem>
#include <sys/resource.h>

using namespace trivium;
using foreign::Numbers;
using foreign::packed;

namespace {

/// In the order of their bytes, not in that of a language.
const char* const part_names[] = {"B", "a", "a0", "a00", "aa", "b"};

Numbers part_of(const Numbers& all, std::int64_t begin, std::int64_t end)
{
    return {all.begin() + begin, all.begin() + end};
}

std::string llmc(const Numbers& ids)
{
    return foreign::llmc_header(20240520, 1, std::int64_t(ids.size())) + packed<std::uint16_t>(ids);
}

/// At most so many open files while it exists.
struct FewFiles {
    explicit FewFiles(rlim_t most)
    {
        ::getrlimit(RLIMIT_NOFILE, &before);
        const rlimit limit{most, before.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before); }
    rlimit before{};
};

} // namespace

TEST_CASE("the files of a folder or a pattern are one store, as if they had been joined")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const TokenStore own = TokenStore::open(folder / "own.h5");
    const auto same = [&](const std::string& name, const std::string& format, std::size_t files = 6) {
        const TokenStore store = TokenStore::open(folder / name, bytes_made_it());
        require_same(store, own);
        CHECK(store.format() == format);
        CHECK(store.path() == folder / name);
        CHECK(store.files().size() == files);
    };
    // Without an index, files end anywhere: the second begins with the end of a document, the last has no
    // more.
    const std::int64_t size = corpus.size(),
                       cuts[] = {
                           0,   corpus.ends[3] - 1, corpus.ends[3] + 30, corpus.ends[3] + 33, 400, size - 1,
                           size};
    for (std::size_t i = 0; i < 6; ++i) {
        const Numbers ids = part_of(corpus.ids, cuts[i], cuts[i + 1]);
        const std::string name = part_names[i], shape = str("(", ids.size(), ",)");
        put(folder / ("nano/" + name + ".bin"), packed<std::uint16_t>(ids));
        put(folder / ("llmc/x" + name + "/t.bin"), llmc(ids));
        put(folder / ("olmo/" + name + ".npy"), packed<std::uint16_t>(ids));
        put(folder / ("numpy/" + name + ".npy"),
            foreign::numpy_header("<i8", shape) + packed<std::int64_t>(ids));
        put(folder / ("ds/" + name + ".ds"), packed<std::uint16_t>(ids));
    }
    put(folder / "nano/.hidden", "x");
    put(folder / "ds/B.ds.metadata", str("bytes|2\n", cuts[1], "\n1 kT"));
    same("nano", "nanoGPT .bin");
    same("nano/", "nanoGPT .bin");
    same("n?no/[A-z]*.bin", "nanoGPT .bin");
    same("llmc/*/t.bin", "llm.c .bin");
    same("olmo", "OLMo .npy");
    same("numpy", "NumPy .npy");
    same("ds", "datatrove .ds");

    // With an index they end with a document.
    const std::size_t documents[] = {0, 3, 4, 5, 6, 29, 30};
    for (std::size_t i = 0; i < 6; ++i) {
        const auto first = static_cast<std::int64_t>(documents[i]),
                   last = static_cast<std::int64_t>(documents[i + 1]),
                   begin = first == 0 ? 0 : corpus.ends[documents[i] - 1];
        const Numbers ids = part_of(corpus.ids, begin, corpus.ends[documents[i + 1] - 1]);
        Numbers ends = part_of(corpus.ends, first, last);
        TokenStoreWriter writer(folder / (std::string("own-") + part_names[i] + ".h5"),
                                *make_tokenizer("bytes"));
        std::int64_t from = begin;
        for (std::int64_t& end : ends) {
            const Numbers document = part_of(corpus.ids, from, end - 1);
            writer.add(std::vector<i32>(document.begin(), document.end()), 1);
            from = end;
            end -= begin;
        }
        writer.finish();
        const std::string trove = folder / (std::string("trove/") + part_names[i] + ".ds"),
                          megatron = folder / (std::string("megatron/") + part_names[i]);
        put(trove, packed<std::uint16_t>(ids));
        put(trove + ".index", packed<std::uint64_t>(ends));
        put(megatron + ".bin", packed<std::int32_t>(ids));
        put(megatron + ".idx", foreign::megatron_index(4, 4, part_of(corpus.lengths, first, last),
                                                       part_of(corpus.bounds, 0, last - first + 1)));
    }
    same("own-*.h5", "Trivium");
    CHECK(TokenStore::open(folder / "own-*.h5").text_bytes() == 30);
    same("trove", "datatrove .ds");
    same("trove/*.index", "datatrove .ds");
    for (const char* name : {"megatron", "megatron/*.bin", "megatron/*.idx", "megatron/[Bab]*"})
        same(name, "Megatron .bin and .idx");

    put(folder / "[B].bin", packed<std::uint16_t>(corpus.ids)); // the name of a file is no pattern
    put(folder / "B.bin", "x");
    CHECK(files_of_store(folder / "[B].bin") == std::vector<std::string>{folder / "[B].bin"});
    same("[[]B].bin", "nanoGPT .bin", 1);
}

TEST_CASE("what is no store of several files is refused with the file, the reason and what to do")
{
    const TemporaryFolder folder;
    const Numbers ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    const std::string u16 = packed<std::uint16_t>(ids), u32 = packed<std::uint32_t>(ids);
    const auto refused = [&](const std::string& name, const auto&... parts) {
        const std::string message =
            message_of<UserError>([&] { (void)TokenStore::open(folder / name, bytes_made_it()); });
        INFO(message);
        CHECK(says(message, parts...));
    };
    std::filesystem::create_directory(folder / "empty");
    refused("empty", "empty: contains no file");
    refused("empty/*.bin", "empty/*.bin: matches no file");
    refused("none/*.bin", "none/*.bin: cannot be searched", "missing");
    refused("none", "none: there is no such");
    put(folder / "sub/deep/a.bin", u16);
    refused("sub", "sub/deep: is a folder", "*/*.bin");
    put(folder / "notes/a.bin", u16);
    put(folder / "notes/README.md", "tokens of today");
    refused("notes", "README.md: is not a Trivium token store", "leave it out of", "*.bin");
    put(folder / "hole/a.bin", u16);
    put(folder / "hole/b.bin", "");
    refused("hole", "hole/b.bin: is empty", "leave it out of");
    put(folder / "half/a.idx", foreign::megatron_index(8, 2, {17}, {0, 1}));
    refused("half", "a.idx: has no file with its ids", "half/a.bin");
    put(folder / "half/a.bin", u16);
    put(folder / "half/b.bin", u16);
    refused("half", "half/b.bin: is not of one kind with", "half/a.bin", "nanoGPT", "Megatron");
    put(folder / "index/a.ds", u16);
    put(folder / "index/b.ds.index", packed<std::uint64_t>({17}));
    refused("index", "b.ds.index: has no file with its ids");
    put(folder / "index/b.ds", u16);
    refused("index", "index/b.ds: is not of one kind with", "index/a.ds", "index of documents");
    put(folder / "formats/a.bin", llmc(ids));
    put(folder / "formats/b.npy", u16);
    refused("formats", "b.npy: is not of one kind with", "a.bin", "llm.c .bin", "OLMo .npy");
    put(folder / "types/a.bin", u16);
    put(folder / "types/b.bin", u32);
    refused("types", "types/b.bin: is not of one kind with", "types/a.bin", "uint32", "uint16",
            "data.token_type");
    CHECK(TokenStore::open(folder / "types", bytes_made_it(TokenType::uint16)).size() == 3 * 17);
    for (const auto& [name, tokenizer] : {std::pair<const char*, std::string>{"a.h5", "bytes"},
                                          {"b.h5", TRIVIUM_TEST_DATA "/io/data/byte_bpe/gpt2.json"}}) {
        std::filesystem::create_directory(folder / "tokenizers");
        TokenStoreWriter writer(folder / "tokenizers/" + name, *make_tokenizer(tokenizer));
        writer.add(std::vector<i32>{1, 2}, 2);
        writer.finish();
    }
    refused("tokenizers", "b.h5: is not of one kind with", "a.h5", "its tokenizer is", "bytes");
}

TEST_CASE("the content of several files is theirs in their order, not where they are")
{
    const TemporaryFolder folder;
    const StoredCorpus corpus(folder / "own.h5");
    const auto content = [&](const std::string& name) { return TokenStore::open(folder / name).content(); };
    put(folder / "a/0.bin", packed<std::uint16_t>(part_of(corpus.ids, 0, 100)));
    put(folder / "a/1.bin", packed<std::uint16_t>(part_of(corpus.ids, 100, 200)));
    const std::string before = content("a");
    CHECK(has(before, "200 tokens, "));
    std::filesystem::rename(folder / "a", folder / "moved");
    CHECK(content("moved/*.bin") == before);
    std::filesystem::rename(folder / "moved/1.bin", folder / "moved/-.bin");
    CHECK(content("moved") != before);
    std::filesystem::rename(folder / "moved/-.bin", folder / "moved/2.bin");
    CHECK(content("moved") == before);
    put(folder / "moved/3.bin", packed<std::uint16_t>({1, 2, 3}));
    CHECK(content("moved") != before);
    CHECK(content("moved/[02].bin") == before);
    CHECK(content("moved/0*") == content("moved/0.bin"));
    // A token in the middle of a file of a store beyond 64 MiB, whose other files have a block each.
    for (const char* name : {"0.npy", "1.npy", "2.npy"})
        put(folder / (std::string("large/") + name), "");
    const auto enlarge = [&](const std::string& name, std::uintmax_t bytes) {
        std::filesystem::resize_file(folder / ("large/" + name), bytes); // without blocks on the disk
    };
    enlarge("0.npy", 1000);
    enlarge("1.npy", std::uintmax_t{65} << 20);
    enlarge("2.npy", 2000);
    const std::string large = content("large");
    put(folder / "large/2.npy", std::string(1999, '\0') + "\1");
    CHECK(content("large") != large);
}

TEST_CASE("more files than a process may open; one that was replaced meanwhile; verify() names the file")
{
    const TemporaryFolder folder;
    constexpr int files = 400;
    for (int i = 0; i < files; ++i)
        put(folder / str("t/", 1000 + i, ".bin"), packed<std::uint16_t>({i, i + 1, 7, 8}));
    const FewFiles limit(320); // two stores are open
    const TokenStore store = TokenStore::open(folder / "t", {TokenType::uint16});
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < files; i += 3)
            CHECK(store.token(4 * ((i * 37) % files) + 1) == (i * 37) % files + 1);
    CHECK_NOTHROW(store.verify());
    std::vector<i32> all(4 * files);
    store.read(0, 4 * files, all.data());
    CHECK(all[4 * 399] == 399);

    put(folder / "new", packed<std::uint16_t>({5, 6, 7, 8}));
    std::filesystem::rename(folder / "new", folder / "t/1000.bin");
    CHECK(says(message_of<UserError>([&] { (void)store.token(2); }), "t/1000.bin: is another file"));

    const TokenStore narrow = TokenStore::open(folder / "t", {TokenType::uint16, 200});
    const std::string error = message_of<UserError>([&] { narrow.verify(); });
    CHECK(says(error, "t/1199.bin: its token 1 is 200, outside the vocabulary of 200"));
    CHECK(message_of<UserError>([&] { narrow.verify(199, 400); }) == error);
    CHECK_NOTHROW(narrow.verify(198, 400));
}
