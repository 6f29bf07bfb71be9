// Token stores with a flipped bit, or truncated: either an error that names the file, or exactly what was
// written. Never a crash, a hang, or wrong tokens.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/in_child.hpp"
#include "io/files/seal.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/token_store.hpp"
#include "soak_settings.hpp"
#include "train/guarded.hpp"

#include <csignal>
#include <cstdio>
#include <random>

using namespace trivium;

namespace {

const bool whole_campaign = soak::whole();

/// All content of a store, through the functions that `train` (read) and `data show` (verify) use.
std::string everything(const std::string& path, bool verify)
{
    const TokenStore store = TokenStore::open(path);
    if (verify)
        store.verify();
    std::vector<i32> ids(static_cast<std::size_t>(store.size()));
    store.read(0, store.size(), ids.data());
    std::string text = str(store.size(), " ", store.vocab(), " ", store.text_bytes(), " ", store.eos(), " ",
                           store.fingerprint(), " ", store.tokenizer()->model(), "\n");
    for (i64 d = 0; d <= store.documents(); ++d)
        text += str(store.document_begin(d), " ");
    for (const i32 id : ids)
        text += str(id, " ");
    return text + store.tokenizer()->decode(ids);
}

/// "error", "as written", "other content", or why the message is incomplete.
std::string outcome(const std::string& path, bool verify, const std::string& written)
{
    try {
        return everything(path, verify) == written ? "as written" : "other content";
    } catch (const UserError& error) {
        return has(error.what(), path) && has(error.what(), "remedy: ")
                   ? "error"
                   : std::string("a message without place or remedy: ") + error.what();
    }
}

struct Counts {
    std::size_t runs = 0, detected = 0, harmless = 0;
};

void take(Counts& counts, const std::string& result, const std::string& what)
{
    INFO(what << ": " << result);
    REQUIRE((result == "error" || result == "as written"));
    ++counts.runs;
    ++(result == "error" ? counts.detected : counts.harmless);
}

/// Three stores: bytes; SentencePiece; several blocks of tokens.
std::vector<std::string> stores(const TemporaryFolder& folder)
{
    put(folder / "t.txt", sample_text(5000));
    TokenizerTraining training;
    training.text.inputs = {folder / "t.txt"};
    training.vocab = 300;
    put(folder / "t.model", train_tokenizer(training));
    std::vector<std::string> paths;
    for (const auto& [name, tokenizer, documents, words] :
         {std::tuple{"bytes.h5", std::string("bytes"), 40, 20},
          {"pieces.h5", folder / "t.model", 20, 50},
          {"large.h5", std::string("bytes"), 3, 50000}}) {
        TokenStoreWriter writer(folder / name, *make_tokenizer(tokenizer));
        for (int d = 0; d < documents; ++d) {
            const std::string text = sample_text(words, unsigned(d));
            writer.add(make_tokenizer(tokenizer)->encode(text), Bytes(text.size()));
        }
        writer.finish();
        paths.push_back(folder / name);
    }
    return paths;
}

} // namespace

TEST_CASE("a token store with one flipped bit, or truncated")
{
    const TemporaryFolder folder;
    const std::vector<std::string> paths = stores(folder);
    std::vector<std::string> contents, written;
    for (const std::string& path : paths) {
        contents.push_back(get(path));
        written.push_back(everything(path, true));
    }
    std::mt19937_64 random(soak::seed());
    const soak::Budget budget;
    Counts flips, cuts;
    const auto try_one = [&](bool cut) {
        const std::size_t which =
            random() % 8 == 0 ? 2 : random() % 2; // the large store is slower, and nearly all of it is tokens
        std::string bytes = contents[which];
        // Half of the flips are in the first 8 KiB, which contain most of HDF5's metadata.
        const std::size_t at =
            random() % (random() % 2 ? std::min<std::size_t>(bytes.size(), 8192) : bytes.size());
        const int bit = static_cast<int>(random() % 8);
        if (cut)
            bytes.resize(at);
        else
            bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
        put(folder / "bad.h5", bytes);
        const bool verify = random() % 2 == 0;
        take(cut ? cuts : flips, guarded([&] { return outcome(folder / "bad.h5", verify, written[which]); }),
             str(cut ? "cut at" : "flipped bit ", cut ? "" : str(bit, " of"), " byte ", at, " of ",
                 paths[which]));
    };
    const std::size_t runs = whole_campaign ? 11000 : 50;
    for (std::size_t i = 0; i < runs || (!whole_campaign && budget.left()); ++i)
        try_one(i % 11 == 10);
    std::printf("token stores: %zu bits flipped (%zu detected, %zu harmless), %zu truncated (%zu detected)\n",
                flips.runs, flips.detected, flips.harmless, cuts.runs, cuts.detected);
    CHECK(cuts.harmless == 0);
    CHECK(flips.harmless == 0); // a hash covers every byte
}

TEST_CASE("a crafted token store, whose seal fits, never crashes the program", "[release]")
{
    const TemporaryFolder folder;
    const std::string path = stores(folder).front(), bad = folder / "bad.h5";
    const std::string content = get(path), written = everything(path, true);
    Bytes begin = 0, bytes = 0;
    {
        const h5::File file = h5::File::open(path);
        const h5::Dataset tokens = file.dataset("tokens");
        begin = tokens.file_offset();
        bytes = tokens.count() * size_of(tokens.type());
    }
    std::mt19937_64 random(soak::seed());
    std::size_t errors = 0;
    const int runs = whole_campaign ? 3000 : 200;
    for (int i = 0; i < runs; ++i) {
        std::string changed = content;
        for (std::size_t changes = 1 + random() % 3; changes > 0; --changes)
            changed[seal_bytes + random() % (8192 - seal_bytes)] = static_cast<char>(random() % 2   ? random()
                                                                                     : random() % 2 ? 0xff
                                                                                                    : 0);
        put(bad, changed);
        seal_file(bad, "Trivium token store", 1, begin, bytes);
        const std::string result = guarded([&] { return outcome(bad, true, written); });
        INFO(i << ": " << result);
        REQUIRE((result == "error" || result == "as written" || result == "other content"));
        errors += result == "error" ? 1 : 0;
    }
    std::printf("token stores with changed metadata and a new seal: %d, %zu refused\n", runs, errors);
    CHECK(errors * 10 > static_cast<std::size_t>(runs));
    CHECK(errors < static_cast<std::size_t>(runs));
}

TEST_CASE("work in a child process: its errors, crashes and limits", "[release]")
{
    int calls = 0;
    try_in_child("a.h5", [&] { ++calls; });
    CHECK(calls == 0); // not in this process
    CHECK(message_of<UserError>([] {
              try_in_child("a.h5", [] { throw UserError({"b", "c", "d", "e"}); });
          }) == "b: c\n  reason: d\n  remedy: e");
    CHECK(message_of<IoError>([] {
              try_in_child("a.h5", [] { throw IoError({"b", "c", "", ""}); });
          }) == "b: c");
    CHECK(has(message_of<UserError>([] { try_in_child("a.h5", [] { std::raise(SIGSEGV); }); }),
              "a.h5: cannot be opened\n  reason: the HDF5 library crashes on it"));
    CHECK(has(message_of<UserError>(
                  [] { try_in_child("a.h5", [] { std::string(std::size_t{3} << 30, 'x').find('y'); }); }),
              "too much time or memory"));
}
