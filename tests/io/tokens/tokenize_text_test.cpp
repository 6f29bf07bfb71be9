#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/files/files.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/text/join_stores.hpp"
#include "io/tokens/text/ordered_work.hpp"
#include "io/tokens/text/plain_record.hpp"
#include "io/tokens/text/tokenize.hpp"
#include "io/tokens/text_source.hpp"

#include <nlohmann/json.hpp>
#include <random>

using namespace trivium;

namespace {

// Two lines {"text":"one"} and {"text":"two"}, and one line {"text":"three"}, as gzip and zstd write them.
template <std::size_t n>
std::string raw(const char (&bytes)[n])
{
    return {bytes, n - 1};
}
const std::string gzip_two =
    raw("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\xca\xcf"
        "\x4b\x55\xaa\xe5\xaa\x86\x71\x4b\xca\xf3\x81\x5c\x00\xfb\x0e\x50\xcb\x1e\x00\x00\x00");
const std::string gzip_one =
    raw("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x2a\xc9"
        "\x28\x4a\x4d\x55\xaa\xe5\x02\x00\xe4\x02\x83\x0c\x11\x00\x00\x00");
const std::string zstd_two = raw("\x28\xb5\x2f\xfd\x24\x1e\xdd\x00\x00\xa8\x7b\x22\x74\x65\x78\x74\x22\x3a"
                                 "\x22\x6f\x6e\x65\x22\x7d\x0a\x74\x77"
                                 "\x6f\x22\x7d\x0a\x01\x00\x52\xcc\x3a\x90\xe2\xdf\xee");
const std::string zstd_one =
    raw("\x28\xb5\x2f\xfd\x24\x11\x89\x00\x00\x7b\x22\x74\x65\x78\x74\x22\x3a\x22\x74\x68\x72"
        "\x65\x65\x22\x7d\x0a\xb6\xb8\xa3\xc4");

std::unique_ptr<Tokenizer> llama3_tokenizer()
{
    return make_tokenizer(TRIVIUM_TEST_DATA "/io/data/byte_bpe/llama3.json");
}

std::vector<std::string> texts_of(const std::string& input)
{
    TextSource source({{input}});
    std::vector<std::string> texts;
    for (Document document; source.next(document);)
        texts.push_back(document.text);
    return texts;
}

std::string text_refusal(const std::string& input)
{
    return message_of<UserError>([&] { texts_of(input); });
}

/// Files of each kind: small and empty ones, long lines, lines over block boundaries, a list, one long text.
void make_corpus(const TemporaryFolder& folder)
{
    std::string lines;
    for (int i = 0; i < 9000; ++i)
        lines += nlohmann::json{{"id", i}, {"text", sample_text(i % 97 == 0 ? 3000 : i % 41, unsigned(i))}}
                     .dump() +
                 "\n";
    put(folder / "in/a.jsonl", lines);
    put(folder / "in/b/empty.txt", "");
    for (int i = 0; i < 40; ++i)
        put(folder / "in/b/" + std::to_string(i) + ".md", sample_text(i * 7 + 1, unsigned(i)));
    put(folder / "in/c.json", "[" + nlohmann::json{{"text", "in a list"}}.dump() + "," +
                                  nlohmann::json{{"text", "and another"}}.dump() + "]");
    put(folder / "in/d.txt", sample_text(800'000, 5));
    put(folder / "in/e.jsonl", "{\"text\":\"no newline at the end\"}");
}

TokenizeJob job_for(const TemporaryFolder& folder, const Tokenizer& tokenizer, const std::string& name,
                    int threads)
{
    TokenizeJob job{.text = {{folder / "in"}}, .tokenizer = &tokenizer, .output = folder / name};
    job.threads = threads;
    return job;
}

} // namespace

TEST_CASE("a store has the same bytes for any number of threads and ranks")
{
    const TemporaryFolder folder;
    make_corpus(folder);
    const auto tokenizer = llama3_tokenizer();
    // The reference: one document after the other.
    std::string read;
    {
        TextSource source({{folder / "in"}});
        TokenStoreWriter writer(folder / "reference.h5", *tokenizer);
        for (Document document; source.next(document);)
            writer.add(tokenizer->encode(document.text), Bytes(document.text.size()));
        writer.finish();
        read = describe_read(source.report());
    }
    const std::string reference = get(folder / "reference.h5");
    for (const int ranks : {1, 2, 5}) {
        for (const int threads : {1, 3}) {
            INFO(ranks << " ranks, " << threads << " threads");
            std::string found;
            run_on_threads(ranks, [&](Comm& comm) {
                const TokenizedText result =
                    tokenize_text(job_for(folder, *tokenizer, "out.h5", threads), comm);
                if (comm.rank() == 0)
                    found = describe_read(result.report);
            });
            CHECK(found == read);
            CHECK((get(folder / "out.h5") == reference));
            CHECK(names(folder.path()) == std::vector<std::string>{"in", "out.h5", "reference.h5"});
        }
    }
    // Held-out text, too.
    std::string train, valid;
    for (const int ranks : {1, 3}) {
        run_on_threads(ranks, [&](Comm& comm) {
            TokenizeJob job = job_for(folder, *tokenizer, "train.h5", 2);
            job.valid = folder / "valid.h5";
            job.valid_fraction = 0.1;
            tokenize_text(job, comm);
        });
        if (ranks > 1) {
            CHECK((get(folder / "train.h5") == train));
            CHECK((get(folder / "valid.h5") == valid));
        }
        train = get(folder / "train.h5");
        valid = get(folder / "valid.h5");
    }
}

TEST_CASE("stores are appended to and joined as if their texts had been tokenized together")
{
    const TemporaryFolder folder;
    put(folder / "in/a.txt", sample_text(3000, 1));
    put(folder / "b.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    const auto tokenizer = llama3_tokenizer();
    const auto run = [&](const std::vector<std::string>& inputs, const std::string& name,
                         bool append = false) {
        TokenizeJob job = job_for(folder, *tokenizer, name, 2);
        job.text.inputs = inputs;
        job.append = append;
        tokenize_text(job, *make_self_comm());
    };
    run({folder / "in/a.txt", folder / "b.jsonl"}, "both.h5");
    run({folder / "in/a.txt"}, "a.h5", true); // makes it
    run({folder / "b.jsonl"}, "b.h5");
    {
        TokenStoreWriter writer(folder / "joined.h5", *tokenizer);
        for (const char* name : {"a.h5", "b.h5"})
            append_store(writer, TokenStore::open(folder / name), *tokenizer);
        writer.finish();
    }
    run({folder / "b.jsonl"}, "a.h5", true);
    CHECK((get(folder / "joined.h5") == get(folder / "both.h5")));
    CHECK((get(folder / "a.h5") == get(folder / "both.h5")));
    // Not to a store of another tokenizer; it stays as it is.
    const auto bytes = make_tokenizer("bytes");
    TokenizeJob job = job_for(folder, *bytes, "a.h5", 1);
    job.append = true;
    CHECK(says(message_of<UserError>([&] { tokenize_text(job, *make_self_comm()); }), "a.h5",
               "another tokenizer"));
    CHECK((get(folder / "a.h5") == get(folder / "both.h5")));
}

TEST_CASE("errors name the line of the file, whichever rank reads it")
{
    const TemporaryFolder folder;
    std::string lines;
    for (int i = 0; i < 1000; ++i)
        lines += i == 876 ? "{\"text\":}\n"
                          : nlohmann::json{{"text", sample_text(i % 9 + 1, unsigned(i))}}.dump() + "\n";
    put(folder / "in/x.jsonl", lines);
    const auto tokenizer = llama3_tokenizer();
    for (const int ranks : {1, 4}) {
        TokenizeJob job = job_for(folder, *tokenizer, "o.h5", 2);
        std::string message;
        run_on_threads(ranks, [&](Comm& comm) {
            const std::string mine = message_of<UserError>([&] { tokenize_text(job, comm); });
            if (comm.rank() == 0)
                message = mine;
        });
        CHECK(says(message, "x.jsonl:877", "is not valid JSON"));
        CHECK(names(folder.path()) == std::vector<std::string>{"in"});
        job.text.skip_bad = true;
        TokenizedText on_first;
        run_on_threads(ranks, [&](Comm& comm) {
            const TokenizedText result = tokenize_text(job, comm);
            if (comm.rank() == 0)
                on_first = result;
        });
        REQUIRE(on_first.report.skipped.size() == 1);
        CHECK(on_first.report.skipped[0].example == folder / "in/x.jsonl:877");
        CHECK(on_first.stores.at(0).documents == 999);
        std::filesystem::remove(folder / "o.h5");
    }
}

TEST_CASE("a file is judged by its begin, not by the begin of each rank's part")
{
    const TemporaryFolder folder;
    std::string lines;
    for (int i = 0; i < 1000; ++i)
        lines += i == 503 ? std::string("{\"text\":\"\0\"}\n", 13)
                          : nlohmann::json{{"text", std::string(40, 'a')}}.dump() + "\n";
    put(folder / "in/x.jsonl", lines);
    const auto tokenizer = llama3_tokenizer();
    TokenizeJob job = job_for(folder, *tokenizer, "o.h5", 1);
    job.text.skip_bad = true;
    for (const int ranks : {1, 2, 4}) {
        INFO(ranks << " ranks");
        run_on_threads(ranks, [&](Comm& comm) {
            const TokenizedText result = tokenize_text(job, comm);
            if (comm.rank() == 0) {
                REQUIRE(result.report.skipped.size() == 1);
                CHECK(result.report.skipped[0].example == folder / "in/x.jsonl:504");
                CHECK(result.stores.at(0).documents == 999);
            }
        });
        std::filesystem::remove(folder / "o.h5");
    }
}

TEST_CASE("compressed files are read as what they contain; truncated and damaged ones are refused")
{
    const TemporaryFolder folder;
    const std::vector<std::string> two{"one", "two"}, three{"one", "two", "three"};
    struct Format {
        std::string suffix, first, second;
        bool present;
    };
    for (const Format& format : {Format{".gz", gzip_two, gzip_one, make_gzip_decompressor() != nullptr},
                                 Format{".zst", zstd_two, zstd_one, make_zstd_decompressor() != nullptr}}) {
        const std::string path = folder / "x.jsonl" + format.suffix;
        INFO(path);
        put(path, format.first);
        if (!format.present) {
            CHECK(says(text_refusal(path), "is compressed", "built without"));
            continue;
        }
        CHECK(texts_of(path) == two);
        put(path, format.first + format.second); // members, or frames
        CHECK(texts_of(path) == three);
        put(folder / "y" + format.suffix, format.first); // without .jsonl it is one text
        CHECK(texts_of(folder / "y" + format.suffix) ==
              std::vector<std::string>{"{\"text\":\"one\"}\n{\"text\":\"two\"}\n"});
        const std::string all = format.first + format.second;
        for (std::size_t size = 4; size < all.size(); ++size) {
            if (size == format.first.size())
                continue;
            put(path, all.substr(0, size));
            CHECK(says(text_refusal(path), "x.jsonl" + format.suffix, "is truncated",
                       "at byte " + std::to_string(size)));
        }
        std::string damaged = all;
        damaged[all.size() - 6] ^= 1; // of the hash or the text
        put(path, damaged);
        CHECK(says(text_refusal(path), "x.jsonl" + format.suffix, "is damaged", "behind", "bytes of text"));
        put(path, all + "more");
        CHECK(says(text_refusal(path), "is "));
        put(path, "{\"text\":\"plain\"}\n");
        CHECK(says(text_refusal(path), "is not compressed, although its name says so"));
    }
    if (make_gzip_decompressor()) {
        put(folder / "z.jsonl.gz", gzip_two + std::string(512, '\0'));
        CHECK(texts_of(folder / "z.jsonl.gz") == two);
    }
    put(folder / "a.txt.xz", "x");
    CHECK(says(text_refusal(folder / "a.txt.xz"), "compressed", ".gz and .zst"));
}

TEST_CASE("records are read as nlohmann-json reads them")
{
    std::mt19937_64 random(4);
    const std::vector<std::string> parts{"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"text\"",
                                         "\"a\"",
                                         "\"te\\u0078t\"",
                                         "\"\\ud83d\\ude00\"",
                                         "\"\\ud800\"",
                                         "\"\\q\"",
                                         "1",
                                         "-0",
                                         "01",
                                         "1.5e3",
                                         "1e",
                                         "true",
                                         "nul",
                                         " ",
                                         "\"\u00e9\\n\"",
                                         "null"};
    int read = 0;
    for (int n = 0; n < 40000; ++n) {
        std::string record = "{\"text\":";
        if (random() % 2 == 0)
            record = "{\"a\":" + parts[random() % parts.size()] + ",\"text\":";
        for (auto count = random() % 4 + 1; count > 0; --count)
            record += parts[random() % parts.size()];
        if (random() % 2 == 0)
            record += "}";
        std::string text;
        if (!plain_text_of_record(record, "text", text))
            continue;
        INFO(record);
        ++read;
        const auto parsed = nlohmann::json::parse(record, nullptr, false);
        REQUIRE_FALSE(parsed.is_discarded());
        CHECK(parsed.at("text").get<std::string>() == text);
    }
    CHECK(read > 500);
    const auto reads = [](const std::string& number) {
        std::string text;
        return plain_text_of_record("{\"score\":" + number + ",\"text\":\"a\"}", "text", text);
    };
    for (const char* usual : {"0.9185566902160645", "-1.25e-07", "1e99"})
        CHECK(reads(usual));
    for (const std::string& unusual : {std::string("1e999"), std::string("1e-100"), std::string(400, '1')})
        CHECK_FALSE(reads(unusual));
}

TEST_CASE("work in order: results in the order of tasks, errors after the results before them")
{
    for (const int threads : {1, 2, 7}) {
        int next = 0;
        std::vector<int> taken;
        const auto produce = [&]() -> std::optional<int> {
            return next < 500 ? std::optional(next++) : std::nullopt;
        };
        work_in_order<int, int>(
            threads, produce, [](int& task) { return 3 * task; }, [&](int& r) { taken.push_back(r); });
        REQUIRE(taken.size() == 500);
        for (int i = 0; i < 500; ++i)
            CHECK(taken[std::size_t(i)] == 3 * i);
        for (const int failing : {0, 250}) {
            next = 0;
            taken.clear();
            const auto fail = [&](int& task) {
                if (task == failing)
                    throw IoError({"task", "failed", "", ""});
                return task;
            };
            CHECK_FALSE(message_of<IoError>([&] {
                            work_in_order<int, int>(threads, produce, fail,
                                                    [&](int& r) { taken.push_back(r); });
                        }).empty());
            CHECK(int(taken.size()) == failing);
        }
    }
}

TEST_CASE("a text is cut where the ids of its parts are those of the whole")
{
    const std::string text = sample_text(4000, 3) + "  x\n  y 12 3'll I'm e\u0301 \u4e2d\u6587 a";
    int kinds = 0;
    for (const char* name : {"gpt2", "llama3", "digits"}) {
        const auto tokenizer =
            make_tokenizer(std::string(TRIVIUM_TEST_DATA "/io/data/byte_bpe/") + name + ".json");
        const std::vector<i32> whole = tokenizer->encode(text);
        std::size_t cuts = 0;
        for (std::size_t from = 1; from < text.size(); from += 97) {
            const std::size_t at = tokenizer->cut(text, from);
            if (at == std::string::npos)
                break;
            REQUIRE((at >= from && at < text.size()));
            std::vector<i32> parts;
            tokenizer->encode_part(std::string_view(text).substr(0, at), true, parts);
            tokenizer->encode_part(std::string_view(text).substr(at), false, parts);
            CHECK((parts == whole));
            ++cuts;
        }
        kinds += cuts > 100;
        CHECK((encode_long(*tokenizer, text, 3) == whole));
    }
    CHECK(kinds == 3);
}
