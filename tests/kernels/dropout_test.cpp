// Which elements dropout keeps, by the formula of its header; whole and in parts.
#include "kernels/dropout.hpp"

#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

constexpr i64 tokens = 7, columns = 21;
const Tokens samples{5, 0, 5, 1, -1, 3, 6, 0}; // of four sequences, two words each

DropoutShape part_of(i64 first_token, i64 count, i64 first_column, i64 width)
{
    return {4, count, width, first_token, first_column, 2, 0x123456789abcdefull, 0.3};
}

bool kept(const DropoutShape& shape, i64 row, i64 token, i64 column)
{
    const auto word = [&](i64 i) {
        return static_cast<std::uint32_t>(samples[static_cast<std::size_t>(2 * row + i)]);
    };
    const PhiloxBlock bits = philox(shape.key, {{static_cast<std::uint32_t>(column / 4),
                                                 static_cast<std::uint32_t>(token), word(0), word(1)}});
    return bits[static_cast<int>(column % 4)] / 0x1p32 >= shape.rate;
}

} // namespace

TEMPLATE_TEST_CASE("dropout keeps by sample, token and column, in any part of the tensor", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    struct Part {
        i64 first_token, count, first_column, width;
    };
    for (const auto& [t0, nt, c0, nc] :
         {Part{0, tokens, 0, columns}, Part{3, 4, 0, columns}, Part{2, 1, 5, 9}, Part{6, 1, 20, 1},
          Part{0, tokens, 1, 2}, Part{0, 0, 0, columns}}) {
        const DropoutShape shape = part_of(t0, nt, c0, nc);
        const auto x = random<T>(4 * nt * nc, "x");
        const auto [y, in_place] = stable([&](const Exec& exec) {
            std::vector<T> out(x.size()), own = x;
            dropout<T>(exec, shape, lend(x), lend(samples), lend(out));
            dropout<T>(exec, shape, lend(own), lend(samples), lend(own));
            return std::tuple(out, own);
        });
        CHECK(same_bits(y, in_place));
        const Doubles wx = wide(x);
        Doubles want;
        for (i64 b = 0, i = 0; b < 4; ++b)
            for (i64 t = t0; t < t0 + nt; ++t)
                for (i64 c = c0; c < c0 + nc; ++c, ++i)
                    want.push_back(kept(shape, b, t, c) ? wx[static_cast<std::size_t>(i)] / 0.7 : 0);
        for (std::size_t i = 0; i < want.size(); ++i)
            REQUIRE((want[i] == 0) == (static_cast<double>(y[i]) == 0));
        require_close(y, want, tolerance<T>, "dropout");
    }
}

TEST_CASE("dropout zeroes its rate of the elements, independently of place, sample and key")
{
    const i64 rows = 64, width = 1000;
    for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
        Tokens numbers;
        for (std::int32_t sample = 0; sample < 8; ++sample)
            numbers.insert(numbers.end(), {sample, 0});
        const std::vector<float> ones(static_cast<std::size_t>(8 * rows * width), 1.0f);
        const auto draw = [&](std::uint64_t key) {
            std::vector<float> y(ones.size());
            start_runtime();
            dropout<float>({}, {8, rows, width, 0, 0, 2, key, rate}, lend(ones), lend(numbers), lend(y));
            return y;
        };
        const auto a = draw(1), b = draw(2);
        // Shares of zeros, and of pairs that are both zero: neighbours, the next token, the next sample, the
        // other key. 512000 elements: four deviations are at most 0.003.
        const auto share = [&](std::size_t shift, const std::vector<float>& other) {
            double both = 0, count = 0;
            for (std::size_t i = 0; i + shift < a.size(); ++i, ++count)
                both += a[i] == 0 && other[i + shift] == 0;
            return both / count;
        };
        CHECK(std::abs(share(0, a) - rate) < 0.003);
        for (const std::size_t shift : {std::size_t{1}, std::size_t(width), std::size_t(rows * width)})
            CHECK(std::abs(share(shift, a) - rate * rate) < 0.003);
        CHECK(std::abs(share(0, b) - rate * rate) < 0.003);
        double sum = 0;
        for (const float value : a)
            sum += static_cast<double>(value);
        CHECK(sum / static_cast<double>(a.size()) == Approx(1).margin(0.02));
    }
}
