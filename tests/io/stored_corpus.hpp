#pragma once
// A store of Trivium, and what other programs would write of the same documents.
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "io/tokens/token_store.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace trivium {

/// Documents of bytes, each with its eos (257).
struct StoredCorpus {
    foreign::Numbers ids, lengths, ends, bounds{0};
    explicit StoredCorpus(const std::string& own_store)
    {
        TokenStoreWriter writer(own_store, *make_tokenizer("bytes"));
        std::mt19937 random(5);
        for (std::int64_t d = 0; d < 30; ++d) {
            std::vector<std::int32_t> document(random() % 40);
            for (std::int32_t& id : document)
                id = static_cast<std::int32_t>(random() % 256);
            writer.add(document, static_cast<Bytes>(document.size()));
            document.push_back(257);
            ids.insert(ids.end(), document.begin(), document.end());
            lengths.push_back(static_cast<std::int64_t>(document.size()));
            ends.push_back(static_cast<std::int64_t>(ids.size()));
            bounds.push_back(d + 1);
        }
        writer.finish();
    }
    std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};

inline TokenStoreOptions bytes_made_it(TokenType type = TokenType::automatic)
{
    TokenStoreOptions options{type};
    options.tokenizer = make_tokenizer("bytes");
    return options;
}

/// The tokens and documents of both are the same.
inline void require_same(const TokenStore& store, const TokenStore& own)
{
    INFO(store.path() << ", " << store.format());
    REQUIRE(store.size() == own.size());
    std::vector<std::int32_t> ids(std::size_t(own.size())), expected = ids;
    own.read(0, own.size(), expected.data());
    store.read(0, store.size(), ids.data());
    CHECK(ids == expected);
    for (i64 begin = 0; begin + 17 < store.size(); begin += 13) {
        store.read(begin, 17, ids.data());
        CHECK(std::equal(ids.begin(), ids.begin() + 17, expected.begin() + begin));
        bool begins[17];
        store.mark_begins(begin, 17, begins);
        for (i64 i = 0; i < 17; ++i)
            CHECK(begins[i] == (begin + i == 0 || expected[std::size_t(begin + i - 1)] == 257));
    }
    CHECK(store.token(store.size() - 1) == 257);
    REQUIRE(store.documents() == own.documents());
    for (i64 d = 0; d <= own.documents(); ++d)
        CHECK(store.document_begin(d) == own.document_begin(d));
    CHECK(store.vocab() == own.vocab());
    CHECK(store.eos() == own.eos());
    CHECK(store.fingerprint() == own.fingerprint());
    CHECK(store.tokenizer()->decode({expected.data(), 20}) == own.tokenizer()->decode({expected.data(), 20}));
    CHECK_NOTHROW(store.verify());
}

} // namespace trivium
