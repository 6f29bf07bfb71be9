// Headers of NumPy files.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/arrays/numpy.hpp"
#include "io/foreign_files.hpp"
#include "io/temporary_folder.hpp"

#include <cstring>

using namespace trivium;

namespace {

NumpyHeader parse(const std::string& bytes)
{
    return parse_numpy_header(
        {"a.npy", static_cast<Bytes>(bytes.size()), [&](Bytes at, void* to, Bytes count) {
             REQUIRE(at >= 0);
             REQUIRE(at + count <= static_cast<Bytes>(bytes.size()));
             std::memcpy(to, bytes.data() + at, static_cast<std::size_t>(count));
         }});
}

std::string refused(const std::string& bytes)
{
    return message_of<UserError>([&] { parse(bytes); });
}

} // namespace

TEST_CASE("a NumPy header gives type, shape, order and the place of the numbers")
{
    for (const int version : {1, 2, 3}) {
        const std::string text = foreign::numpy_header("<f4", "(12, 3, 5)", "False", version);
        const NumpyHeader header = parse(text + "numbers");
        CHECK(header.type == "<f4");
        CHECK(header.shape == Shape{12, 3, 5});
        CHECK(!header.fortran);
        CHECK(header.begin == static_cast<Bytes>(text.size()));
    }
    CHECK(parse(foreign::numpy_header("<f4", "(7,)")).shape == Shape{7});
    CHECK(parse(foreign::numpy_header("<f4", "()")).shape == Shape{});
    CHECK(parse(foreign::numpy_header("<f4", "(3, 4)", "True")).fortran);
    CHECK(!parse(foreign::numpy_header("<f4", "(3, x)")).shape);
    CHECK(!parse(foreign::numpy_header("<f4", "(-3, 1)")).shape);
    CHECK(!parse(foreign::numpy_header("<f4", "(99999999999999999999,)")).shape);
    const auto type = [](const std::string& text) { return numpy_type(text); };
    CHECK((type("<f2")->type == DType::f16 && type("<f8")->type == DType::f64 &&
           type("|i1")->type == DType::i8));
    CHECK((type(">i4")->type == DType::i32 && type(">i4")->big_endian && !type(">u1")->big_endian));
    CHECK(type("|b1")->type == DType::u8);
    for (const char* other : {"", "<c8", "|S4", "<M8[s]", "f4", "<f16", "?f4"})
        CHECK(!type(other));
}

TEST_CASE("what is no NumPy file is refused")
{
    const std::string good = foreign::numpy_header("<f4", "(3,)");
    CHECK(says(refused("PK\3\4 and so on, an npz"), "a.npy", "is not a NumPy file"));
    CHECK(says(refused(good.substr(0, 11)), "is truncated"));
    CHECK(says(refused(good.substr(0, 40)), "is truncated"));
    std::string later = good;
    later[6] = 9;
    CHECK(says(refused(later), "version 9"));
    for (std::size_t at = 0; at < good.size(); ++at) // any byte
        for (const int bit : {0, 4, 7}) {
            std::string other = good;
            other[at] = static_cast<char>(other[at] ^ (1 << bit));
            CHECK(!refused(other).starts_with("other"));
        }
}
