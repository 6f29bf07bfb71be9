// Prefill and decode with the KV cache give the logits of the whole sequence.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"
#include "train/generator.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;
using namespace trivium::runs;
using reference::Model;
using reference::Vector;

namespace {

constexpr i64 chunk = 4, capacity = 18;

Model model_of(bool llama)
{
    return {llama, 2, 24, 4, llama ? 2 : 4, 30, 29, static_cast<int>(capacity), !llama, 500};
}

struct Setup {
    Model model;
    std::unique_ptr<Engine> engine;
    TokenBatch batch;

    Setup(bool llama, Precision precision) : model(model_of(llama))
    {
        start_runtime();
        RunConfig config = config_of(model, precision, 1);
        if (llama)
            config.model.seq = 5; // rotary positions may exceed the training length
        engine = std::make_unique<Engine>(compile_generation(config, {1, chunk, capacity}, small_machine()));
        engine->initialise(1);
        draw_parameters(engine->program(prefill_program), engine->arenas(), 17, "test", 0.4);
        batch = random_batch(model, 1, 3);
    }

    /// The logits of the token after the first `count`.
    Vector want(i64 count) const
    {
        const reference::Ids none(batch.tokens.size(), -1);
        const Vector logits =
            reference::run(model, read_parameters(engine->program(prefill_program), engine->arenas()),
                           batch.tokens, none)
                .logits;
        return Vector(logits.begin() + (count - 1) * model.vocab, logits.begin() + count * model.vocab);
    }
};

void compare_generator(bool llama, Precision precision, double tolerance)
{
    Setup setup(llama, precision);
    Generator generator(*setup.engine);
    // Pieces: part of a chunk, exactly one, several, several and a remainder, single tokens, up to a full
    // cache.
    for (const std::vector<i64>& pieces :
         std::vector<std::vector<i64>>{{3, 1, 1, 9, 1, 3}, {4, 4, 8, 2}, {11, 1, 6}, {1, 1, 16}, {18}}) {
        generator.reset();
        i64 length = 0;
        for (const i64 piece : pieces) {
            const std::span<const double> got = generator.append(
                std::span(setup.batch.tokens)
                    .subspan(static_cast<std::size_t>(length), static_cast<std::size_t>(piece)));
            length += piece;
            INFO((llama ? "llama " : "gpt2 ") << name_of(precision) << ", " << length << " tokens");
            CHECK(generator.length() == length);
            CHECK(scaled_difference(Vector(got.begin(), got.end()), setup.want(length)) <= tolerance);
        }
        REQUIRE(length == capacity);
    }
    CHECK_THROWS_AS(generator.append(std::span(setup.batch.tokens).first(1)),
                    InternalError); // the cache is full
    CHECK(setup.engine->used() == setup.engine->planned());
    CHECK(std::max(setup.engine->executor(prefill_program).used(),
                   setup.engine->executor(decode_program).used()) == setup.engine->planned());
}

} // namespace

TEST_CASE("the generator's logits are those of the whole sequence")
{
    for (const bool llama : {true, false}) {
        compare_generator(llama, Precision::f32, 1e-4);
        compare_generator(llama, Precision::f64, 1e-10);
        compare_generator(llama, Precision::bf16, 1e-1);
    }
}

TEST_CASE("prefill and decode programs agree with the whole sequence in f64")
{
    for (const bool llama : {true, false}) {
        Setup setup(llama, Precision::f64);
        i64 length = 0;
        for (const i64 given : {chunk, chunk, chunk - 1, i64{1}, i64{1}}) { // the third chunk is padded
            Executor& executor = setup.engine->executor(given == 1 ? decode_program : prefill_program);
            executor.run_until_decision([&](const Value& value, i64, void* destination) {
                auto* to = static_cast<std::int32_t*>(destination);
                for (i64 i = 0; i < value.type.elements(); ++i)
                    to[i] = static_cast<std::int32_t>(
                        value.name == "start"  ? length
                        : value.name == "last" ? given - 1
                        : value.name == "positions"
                            ? length + i
                            : setup.batch.tokens[static_cast<std::size_t>(length + i)]);
            });
            length += given;
            Vector got;
            for (i64 v = 0; v < setup.model.vocab; ++v)
                got.push_back(executor.fetched("logits", v));
            INFO((llama ? "llama, " : "gpt2, ") << length << " tokens");
            CHECK(scaled_difference(got, setup.want(length)) <= 1e-10);
        }
    }
}
