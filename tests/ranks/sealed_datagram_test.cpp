// An attacker who reads datagrams of a run cannot use them.
#include "catch.hpp"
#include "mpi/launch/sealed_datagram.hpp"

#include <random>
#include <set>

using namespace trivium;

TEST_CASE("SipHash-2-4 of its published test vectors")
{
    // The reference implementation's vectors.h: key 00 01 … 0f, input 00 01 … of so many bytes. The 15 bytes
    // are the paper's appendix A.
    const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
    std::string text;
    const auto hash_of = [&](std::size_t bytes) {
        text.clear();
        for (std::size_t i = 0; i < bytes; ++i)
            text += static_cast<char>(i);
        return siphash(key, text);
    };
    CHECK(hash_of(0) == 0x726fdb47dd0e0e31);
    CHECK(hash_of(1) == 0x74f839c593dc67fd);
    CHECK(hash_of(2) == 0x0d6c8009d9a94f5a);
    CHECK(hash_of(3) == 0x85676696d7fb7e2d);
    CHECK(hash_of(7) == 0xab0200f58b01d137);
    CHECK(hash_of(8) == 0x93f5f5799a932462);
    CHECK(hash_of(15) == 0xa129ca6149be45e5);
    CHECK(hash_of(63) == 0x958a324ceb064572);
}

namespace {

const SipKey ours{0x1234567890abcdef, 0xfedcba0987654321};

} // namespace

TEST_CASE("a sealed datagram is accepted once, by its receiver")
{
    SealedDatagrams zero(ours, 0, 3), one(ours, 1, 3), two(ours, 2, 3);
    const std::string first = zero.seal(1, "first"), second = zero.seal(1, "second"),
                      empty = zero.seal(1, "");
    CHECK_FALSE(two.open(first));
    CHECK_FALSE(zero.open(first));
    const auto message = one.open(first);
    REQUIRE(message);
    CHECK((message->from == 0 && message->text == "first"));
    CHECK_FALSE(one.open(first)); // again
    REQUIRE(one.open(empty));
    CHECK_FALSE(one.open(second)); // older than the last
    REQUIRE(one.open(two.seal(1, "another's counter is its own")));
    SealedDatagrams later(ours, 1,
                          3); // a new receiver also rejects datagrams with another key
    CHECK_FALSE(later.open(SealedDatagrams({1, 2}, 0, 3).seal(1, "e")));
}

TEST_CASE("a datagram that was changed, truncated or extended is rejected")
{
    SealedDatagrams sender(ours, 0, 2);
    const std::string text = "e a text of some length";
    const std::string real = sender.seal(1, text);
    REQUIRE(real.size() == SealedDatagrams::header + text.size());
    const auto refused = [](const std::string& datagram) {
        return !SealedDatagrams(ours, 1, 2).open(datagram);
    };
    REQUIRE_FALSE(refused(real));
    for (std::size_t bytes = 0; bytes < real.size(); ++bytes)
        CHECK(refused(real.substr(0, bytes)));
    CHECK(refused(real + '\0'));
    CHECK(refused(real + real));
    for (std::size_t bit = 8 * 8; bit < 8 * real.size(); ++bit) { // the kernel checks the tag before it
        std::string changed = real;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
        CHECK(refused(changed));
    }
    std::mt19937_64 random(1);
    for (int i = 0; i < 1000; ++i) {
        std::string noise(random() % 100, 'x');
        for (char& each : noise)
            each = static_cast<char>(random());
        CHECK(refused(noise));
    }
}

TEST_CASE("each receiver has its own tag")
{
    const SealedDatagrams any(ours, 0, 100), other({5, 6}, 0, 100);
    std::set<std::string> tags;
    for (int rank = 0; rank < 100; ++rank) {
        tags.insert(any.tag_of(rank));
        tags.insert(other.tag_of(rank));
    }
    CHECK(tags.size() == 200);
    CHECK(SealedDatagrams(ours, 3, 100).seal(7, "").starts_with(any.tag_of(7)));
}
