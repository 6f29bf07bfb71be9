// The examples of the GSPMD paper (Xu et al. 2021, arXiv:2105.04663), docs/examples: what they communicate,
// against formulas from the paper; how propagation completes the few annotations; and what they compute,
// against one rank. Formulas give the bytes that a rank sends, on average, of f64.
#include "base/check.hpp"
#include "catch.hpp"
#include "gspmd.hpp"
#include "runs.hpp"

#include <algorithm>
#include <vector>

using namespace trivium;
using namespace trivium::gspmd;

namespace {

/// The share of a tensor that a ring of n ranks moves.
double ring(double n) { return (n - 1) / n; }
Sent gathered(int count, double elements, double n) { return {count, 8 * elements * ring(n)}; }
Sent scattered(int count, double elements, double n) { return gathered(count, elements, n); }
Sent reduced(int count, double elements, double n) { return gathered(count, 2 * elements, n); }
/// `elements` of a rank of n go to another dimension.
Sent exchanged(int count, double elements, double n) { return gathered(count, elements, n); }

/// No more of these collectives and no more bytes; others only if then all together send fewer.
void check_traffic(const std::string& text, const Traffic& expected)
{
    const Traffic got = traffic(text);
    INFO(text << "sends\n" << text_of(got) << "expected\n" << text_of(expected));
    for (const auto& [kind, sent] : got) {
        INFO(kind);
        const auto want = expected.find(kind);
        if (want == expected.end()) {
            CHECK(total(got) < total(expected));
            continue;
        }
        CHECK(sent.count <= want->second.count);
        CHECK(sent.bytes <= want->second.bytes * (1 + 1e-9) + sent.count); // each is rounded up
    }
    CHECK(total(got) >= 0.7 * total(expected)); // fewer: the formula would not be the paper's
}

void check_shardings(const std::string& text, const std::map<std::string, std::string>& expected)
{
    INFO(text);
    for (const auto& [value, sharding] : expected) {
        INFO(value);
        CHECK(sharding_of(text, value) == sharding);
    }
}

void check_numbers(const std::string& text)
{
    runs::start_runtime();
    INFO(text);
    for (const std::uint64_t seed : {1, 2})
        CHECK(runs::difference_on_threads(text, seed) <= 1e-12);
}

/// The layer's input gets a gradient, as in a stack of layers.
std::string with_input_gradient(const std::string& text)
{
    return replaced(text, "input %x", "parameter %x");
}

struct Grid {
    int x, y;
    std::string mesh() const { return str("x=", x, " y=", y); }
};

} // namespace

TEST_CASE("the 2-D finalized transformer layer")
{
    constexpr double b = 8, s = 4, m = 8, h = 32; // n d = m
    for (const Grid grid : {Grid{2, 2}, {4, 2}, {2, 4}}) {
        const double x = grid.x, y = grid.y;
        const std::string forward = example("transformer", grid.mesh());
        CHECK(annotations(forward) == 8);
        check_shardings(forward, {{"q", "<x,-,y,->"},
                                  {"k", "<x,-,y,->"},
                                  {"v", "<x,-,y,->"},
                                  {"scores", "<x,y,-,->"},
                                  {"probability", "<x,y,-,->"},
                                  {"context", "<x,-,y,->"},
                                  {"attention", "<x,-,y>"},
                                  {"x1", "<x,-,y>"},
                                  {"hidden", "<x,-,y>"},
                                  {"feed", "<x,-,y>"}});
        const double weights = (4 * m * m + 2 * m * h) / y, between = b * s * m / x, norm = b * s / x;
        // Weights are gathered over x; what enters a product over y, and what leaves the two is scattered.
        const Traffic sends{{"all_gather(x)", gathered(6, weights, x)},
                            {"all_gather(y)", gathered(2, 2 * between, y)},
                            {"reduce_scatter(y)", scattered(2, 2 * between, y)},
                            {"all_reduce(y)", reduced(2, 2 * norm, y)},
                            {"all_reduce(x,y)", reduced(1, 1, x * y)}}; // the loss
        check_traffic(forward, sends);

        const std::string step = training_step(with_input_gradient(forward));
        check_shardings(step, {{"new.w_q", "<x,y,->"},
                               {"new.w_o", "<y,-,x>"},
                               {"new.w_out", "<y,x>"},
                               {"momentum.w_q", "<x,y,->"},
                               {"momentum.w_in", "<x,y>"}});
        Traffic both = sends;
        both["all_gather(x)"] = gathered(12, 2 * weights, x);
        both["all_gather(y)"] = gathered(2 + 4, 6 * between, y); // and the gradients, and the inputs again
        both["reduce_scatter(x)"] = scattered(6, weights, x);
        both["reduce_scatter(y)"] = scattered(4, 4 * between, y);
        both["all_reduce(y)"] = reduced(4, 4 * norm, y);
        check_traffic(step, both);
        check_numbers(step);
    }
}

TEST_CASE("2-D attempts 1 and 2 of the paper send more, or hold more")
{
    constexpr double b = 8, s = 4, m = 8, h = 32;
    for (const Grid grid : {Grid{2, 2}, {4, 2}}) {
        const double x = grid.x, y = grid.y;
        const std::string finalized = example("transformer", grid.mesh());
        const std::string first = replaced(finalized, "<x,-,y>", "<-,-,x>"),
                          second = replaced(finalized, "<x,-,y>", "<x,-,->");
        // Width over x, no batch axis: each product's result is a sum over x or y.
        const Traffic paper{{"all_reduce(x)", reduced(6 + 1, b * s * (3 * m + h) / y + 2 * b * s + 1, x)},
                            {"all_reduce(y)", reduced(2, 2 * b * s * m / x, y)}};
        // Here it is cheaper to gather what enters the wide product, and its weight.
        CHECK(total(traffic(first)) <= total(paper));
        // Width whole: what leaves the two is a sum over y.
        CHECK(total(traffic(second)) <= total({{"all_gather(x)", gathered(6, (4 * m * m + 2 * m * h) / y, x)},
                                               {"all_reduce(y)", reduced(2, 2 * b * s * m / x, y)},
                                               {"all_reduce(x)", reduced(1, 1, x)}}));
        const auto step = [](const std::string& text) { return training_step(with_input_gradient(text)); };
        CHECK(total(traffic(step(finalized))) < total(traffic(step(first))));
        CHECK(activations(step(finalized)) < 0.9 * activations(step(second)));
        check_numbers(step(first));
        check_numbers(step(second));
    }
}

TEST_CASE("a mixture of experts: two all-to-alls, no gather of tokens")
{
    constexpr double b = 8, m = 6, e = 4, c = 3;
    for (const Grid grid : {Grid{2, 2}, {4, 2}}) {
        const double x = grid.x, y = grid.y;
        const std::string forward = example("moe", grid.mesh());
        CHECK(annotations(forward) == 5);
        check_shardings(forward, {{"logits", "<x,-,->"},
                                  {"gates", "<x,-,->"},
                                  {"first_count", "<x,-,->"},
                                  {"combine", "<x,-,-,->"},
                                  {"dispatch", "<x,-,-,->"},
                                  {"hidden", "<x,-,-,y>"},
                                  {"relu", "<x,-,-,y>"},
                                  {"y", "<x,-,->"}});
        const double tokens = e * b * c * m / x;
        const Traffic sends{{"all_to_all(x)", exchanged(2, 2 * tokens, x)},
                            {"all_reduce(y)", reduced(1, tokens, y)}, // a product over the width
                            {"all_reduce(x)", reduced(1, 1, x)}};     // the loss
        check_traffic(forward, sends);

        const std::string step = training_step(with_input_gradient(forward));
        check_shardings(step, {{"new.w_in", "<x,-,y>"}, {"new.w_out", "<x,y,->"}, {"new.x", "<x,-,->"}});
        Traffic both = sends; // the gradients return as the tokens came
        both["all_to_all(x)"] = exchanged(4, 4 * tokens, x);
        both["all_reduce(x)"] = reduced(2, 1 + m * e, x);
        both["all_reduce(y)"] = reduced(2, 2 * tokens, y);
        check_traffic(step, both);
        check_numbers(step);
    }
}

namespace {

struct Windows {
    int size, stride, low;
};
struct Range {
    int begin, end;
};

/// Parts of an extent differ by at most one, the larger ones come first.
Range part(int extent, int n, int i)
{
    const auto begin = [&](int k) { return k * (extent / n) + std::min(k, extent % n); };
    return {begin(i), begin(i + 1)};
}

/// The inputs under the windows of these outputs.
Range under(Range out, Windows w, int extent)
{
    return {std::max(0, out.begin * w.stride - w.low),
            std::min(extent, (out.end - 1) * w.stride - w.low + w.size)};
}

/// The outputs whose windows have one of these inputs.
Range over(Range in, Windows w, int extent)
{
    const int first = in.begin + w.low - w.size + 1;
    return {std::max(0, (first + w.stride - 1) / w.stride),
            std::min(extent, (in.end - 1 + w.low) / w.stride + 1)};
}

/// Cells of `need` outside `have`, rows by columns.
double lacking(const Range need[2], const Range have[2])
{
    double cells = 1, common = 1;
    for (int d = 0; d < 2; ++d) {
        cells *= need[d].end - need[d].begin;
        common *= std::max(0, std::min(need[d].end, have[d].end) - std::max(need[d].begin, have[d].begin));
    }
    return cells - common;
}

/// What an op reads: inputs for its outputs, the outputs' gradients for those of its inputs, or for these the
/// inputs of all windows that cover them (which one was the maximum).
enum class Reads { inputs, gradients, rivals };

struct Images {
    Grid grid;
    int in[2], out[2]; ///< rows and columns
    Windows window;

    /// Cells that a rank gets from its neighbours, on average.
    double halo(Reads reads) const
    {
        const int ranks[] = {grid.x, grid.y};
        double cells = 0;
        for (int i = 0; i < grid.x; ++i)
            for (int j = 0; j < grid.y; ++j) {
                Range need[2], have[2];
                for (int d = 0; d < 2; ++d) {
                    const Range mine = part(in[d], ranks[d], d ? j : i),
                                made = part(out[d], ranks[d], d ? j : i),
                                covering = over(mine, window, out[d]);
                    have[d] = reads == Reads::gradients ? made : mine;
                    need[d] = reads == Reads::inputs      ? under(made, window, in[d])
                              : reads == Reads::gradients ? covering
                                                          : under(covering, window, in[d]);
                }
                cells += lacking(need, have);
            }
        return cells / (grid.x * grid.y);
    }
};

} // namespace

TEST_CASE("convolutions on sharded images: halos of the right size, sums of gradients, nothing else")
{
    constexpr Windows same{3, 1, 1}, half{3, 2, 1}, pooling{2, 1, 0};
    for (const Grid grid : {Grid{2, 2}, {4, 2}, {3, 2}}) {
        const Images at_37{grid, {37, 26}, {37, 26}, same}, to_19{grid, {37, 26}, {19, 13}, half},
            pool{grid, {19, 13}, {19, 13}, pooling}, at_19{grid, {19, 13}, {19, 13}, same};
        const std::string axes = "(x,y)";
        const double ranks = grid.x * grid.y;
        const std::string forward = example("convolution", grid.mesh());
        CHECK(annotations(forward) == 1);
        check_shardings(
            forward,
            {{"c1", "<-,-,x,y>"}, {"c2", "<-,-,x,y>"}, {"pooled", "<-,-,x,y>"}, {"c3", "<-,-,x,y>"}});
        // 2 images; 3 channels before the first convolution, then 4, and 5 at last
        const double halos = 2 * 8 *
                             (3 * at_37.halo(Reads::inputs) + 4 * to_19.halo(Reads::inputs) +
                              4 * pool.halo(Reads::inputs) + 4 * at_19.halo(Reads::inputs));
        const Traffic sends{{"halo" + axes, {4, halos}}, {"all_reduce" + axes, reduced(1, 10, ranks)}};
        check_traffic(forward, sends);

        const std::string step = training_step(forward);
        // Of the gradients of what the layers read, and the inputs again for those of the weights; pooling
        // needs both.
        const double back =
            2 * 8 *
            (5 * at_19.halo(Reads::gradients) + 4 * pool.halo(Reads::gradients) +
             4 * to_19.halo(Reads::gradients) + 3 * at_37.halo(Reads::inputs) +
             4 * to_19.halo(Reads::inputs) + 4 * pool.halo(Reads::rivals) + 4 * at_19.halo(Reads::inputs));
        const double weights = 4 * 3 * 9 + 4 * 4 * 9 + 5 * 4 * 9;
        Traffic both = sends;
        both["halo" + axes] = {4 + 7, halos + back};
        both["all_reduce" + axes] = reduced(1 + 3, 10 + weights, ranks);
        check_traffic(step, both);
        check_numbers(step);
    }
}

TEST_CASE("a pipeline as a shifting buffer: one stage moves on per tick")
{
    constexpr double stage = 2 * 4; // elements
    for (const int x : {2, 4}) {
        const std::string forward = example("pipeline", str("x=", x)), step = training_step(forward);
        CHECK(annotations(forward) == 1);
        check_shardings(step, {{"state0", "<x,-,->"}, {"state5", "<x,-,->"}, {"new.w", "<x,-,->"}});
        // Each rank but the last sends one stage forward, each but the first one backward.
        check_traffic(forward, {{"halo(x)", gathered(5, 5 * stage, x)}, {"all_reduce(x)", reduced(1, 1, x)}});
        check_traffic(step, {{"halo(x)", gathered(10, 10 * stage, x)}, {"all_reduce(x)", reduced(1, 1, x)}});
        check_numbers(step);
    }
}

TEST_CASE("a sharded weight update: gradients are scattered, weights gathered once")
{
    constexpr double weights = 8 * 12 + 12 * 4;
    for (const int x : {2, 4}) {
        const std::string step = training_step(example("weight-update", str("x=", x)));
        check_shardings(step, {{"new.w1", "<x,->"}, {"momentum.w1", "<x,->"}, {"new.momentum.w2", "<x,->"}});
        check_traffic(step, {{"all_gather(x)", gathered(2, weights, x)},
                             {"reduce_scatter(x)", scattered(2, weights, x)},
                             {"all_reduce(x)", reduced(1, 1, x)}});
        check_numbers(step);
    }
}

TEST_CASE("a lookup in a vocabulary over the batch's axis, a roll and a slice send no more than XLA")
{
    struct Case {
        int x;
        std::string ops;
        double xla; ///< bytes per rank: JAX 0.10.2, jit with the same shardings, from the compiled HLO
    };
    const auto lookup = [](int rows, int width, int sequences, int tokens) {
        return str("parameter %t : f32[", rows, ",", width, "] <x,->\ninput %i : i32[", sequences, ",",
                   tokens, "] <x,->\n%y = embedding(%t, %i) : f32[", sequences, ",", tokens, ",", width,
                   "] <x,-,->\noutput %y\n");
    };
    const auto roll = [](int by) {
        return str("input %v : f32[64] <x>\n%a = slice(%v) {start=\"", by, "\", limit=\"64\"} : f32[",
                   64 - by, "]\n%b = slice(%v) {start=\"0\", limit=\"", by, "\"} : f32[", by,
                   "]\n%y = concatenate(%a, %b) {dims=\"0\"} : f32[64] <x>\noutput %y\n");
    };
    const Case cases[] = {
        {2, lookup(64, 16, 8, 16), 2048},
        {4, lookup(64, 16, 8, 16), 3072},
        {8, lookup(64, 16, 8, 16), 3584},
        {4, lookup(256, 32, 8, 16), 24960},
        {4, lookup(32, 64, 8, 4), 6144},
        {8, lookup(1024, 16, 8, 4), 3696},
        {2, roll(1), 4},
        {4, roll(1), 4},
        {8, roll(1), 4},
        {2, roll(3), 12},
        {4, roll(3), 12},
        {8, roll(3), 12},
        {2, roll(20), 80},
        {4, roll(20), 64},
        {8, roll(20), 32},
        {4, roll(8), 32},
        {4, roll(16), 64},
        {8, roll(8), 32},
    };
    for (const Case& c : cases) {
        const std::string text = str("graph t\nmesh x=", c.x, "\n", c.ops);
        INFO(text);
        CHECK(total(traffic(text)) < c.xla + 2); // each collective rounds its average up
        check_numbers(text);
    }
}
