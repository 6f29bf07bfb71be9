// Frozen parameters and low-rank adapters: gradients that follow from those of the merged weights, which the
// reference has, and the same outcome on every grid.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/adapter_reference.hpp"
#include "grid/cases.hpp"
#include "has.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace trivium;
using namespace trivium::grids;

namespace {

struct Ranks {
    i64 data = 1, context = 1, tensor = 1, pipeline = 1;
    int zero = 0;
    void (*set)(Case&) = [](Case&) {};
};

LoraConfig lora(std::vector<std::string> targets = {}, bool magnitudes = false)
{
    LoraConfig made;
    made.rank = 3;
    made.alpha = 4.5;
    made.targets = std::move(targets);
    made.magnitudes = magnitudes;
    return made;
}

Case case_of(const Ranks& grid, std::optional<OptionSet> options, TrainedParameters trained)
{
    Case c = narrow_case();
    c.mixed = options;
    c.rows = 8;
    c.trained = std::move(trained);
    c.micro_batch = std::max<i64>(1, c.rows / grid.data / 2);
    ParallelConfig& p = c.parallel;
    p.data = grid.data;
    p.context = grid.context;
    p.tensor = grid.tensor;
    p.pipeline = grid.pipeline;
    p.zero = grid.zero;
    grid.set(c);
    return c;
}

void require_same(const Case& c, const Outcome& alone)
{
    INFO(c.text());
    Outcome got;
    REQUIRE_NOTHROW(got = train_on_threads(c));
    const Differences d = differences(got, alone);
    INFO(d.text());
    CHECK(d.most() < 1e-9);
}

} // namespace

TEST_CASE("gradients of adapters follow from those of the merged weights; what is frozen has none and stays")
{
    using enum OptionSet;
    const std::pair<OptionSet, TrainedParameters> cases[] = {
        {llama, {{}, lora()}},
        {llama, {{}, lora({"*"})}},
        {llama, {{}, lora({}, true)}},
        {gpt2, {{}, lora({"*"})}},
        {post, {{}, lora({"*.attn.*", "head.weight"}, true)}},
        {sandwich, {{"layers.0.*"}, {}}},
        {sandwich, {{"*_norm.*", "embed.*", "*.attn.?.weight"}, {}}},
        {parallel, {{}, lora({"layers.?.attn.*"})}},
        {experts, {{}, lora()}},
        {experts, {{}, lora({}, true)}},
        {groups, {{"*.router.*"}, {}}},
        {groups, {{}, lora({"*.experts.*"}, true)}},
        {latent, {{}, lora({}, true)}},
    };
    for (const auto& [options, trained] : cases) {
        const Case c = case_of({}, options, trained);
        INFO(c.text() << ", freeze " << trained.freeze.size());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(c));
        const reference::Tensors expected = reference_of(c, got.initial).gradients;
        CHECK(got.gradients.size() == expected.size());
        CHECK(largest_difference(got.gradients, expected) < 1e-9);
        double squares = 0;
        const double tokens = static_cast<double>(
            std::ranges::count_if(batch_of(c, 0).targets, [](std::int32_t target) { return target >= 0; }));
        for (const auto& [name, values] : expected)
            for (const double value : values)
                squares += value * value / tokens / tokens;
        CHECK(std::abs(got.norms[0] / std::sqrt(squares) - 1) < 1e-9);
        for (const auto& [name, values] : got.parameters) {
            INFO(name);
            CHECK((values == got.initial.at(name)) == trained.is_frozen(name));
            CHECK(got.moments.contains("adam_m." + name) == !trained.is_frozen(name));
        }
    }
}

TEST_CASE("adapters and frozen parameters on every kind of grid compute what one rank does")
{
    const auto again = [](Case& c) { c.parallel.recompute = Recompute::full; };
    const std::pair<TrainedParameters, std::vector<Ranks>> cases[] = {
        {{{}, lora({"*"})},
         {{2, 1, 2, 1, 1},
          {1, 1, 2, 2, 0},
          {2, 1, 1, 2, 3},
          {2, 1, 2, 2, 2, again},
          {2, 2, 1, 1, 1},
          {1, 2, 2, 1, 0, [](Case& c) { c.parallel.sequence = false; }},
          {4, 1, 1, 1, 3, [](Case& c) { c.parallel.tile = 2; }},
          {4, 1, 1, 1, 3, [](Case& c) { c.parallel.gather_every = GatherEvery::step; }},
          {2, 1, 2, 1, 3, [](Case& c) { c.optimizer = OptimizerKind::muon; }},
          {1, 1, 1, 3, 0, [](Case& c) { c.parallel.schedule = "zb-h1"; }}}},
        {{{}, lora({}, true)},
         {{2, 1, 2, 1, 1},
          {1, 1, 2, 3, 0},
          {2, 1, 1, 2, 3, again},
          {2, 1, 1, 1, 1, [](Case& c) { c.parallel.offload = Offload::optimizer; }}}},
        // Stages without anything trained, before and behind what is.
        {{{"embed.*", "layers.0.*", "layers.1.*"}, {}},
         {{1, 1, 1, 3, 0},
          {2, 1, 2, 2, 3},
          {2, 1, 1, 2, 1, [](Case& c) { c.parallel.schedule = "zb-h1"; }},
          {2, 1, 1, 3, 2, [](Case& c) { c.parallel.schedule = "gpipe"; }},
          {2, 1, 1, 3, 1,
           [](Case& c) {
               c.parallel.update = UpdateMode::post_validated;
               c.counts_all = true;
           }}}},
        {{{"layers.1.*", "layers.2.*", "final_norm.*", "head.*"}, {}},
         {{1, 1, 1, 3, 0},
          {1, 1, 2, 3, 0, again},
          {2, 1, 1, 2, 1},
          {2, 1, 1, 2, 3, [](Case& c) { c.parallel.offload = Offload::optimizer; }},
          {1, 1, 1, 3, 0,
           [](Case& c) {
               c.parallel.update = UpdateMode::post_validated;
               c.counts_all = true;
           }}}},
        {{{"embed.*"}, {}}, {{1, 1, 2, 2, 0, [](Case& c) { c.model.tied = true; }}}},
        {{{"layers.*"}, {}}, {{1, 1, 2, 2, 0, [](Case& c) { c.model.tied = true; }}}},
    };
    std::size_t n = 0;
    for (const auto& [trained, grids] : cases)
        for (const Ranks& grid : grids) {
            if (contracts_on && n++ % 5 != 3) // sanitizers take their time
                continue;
            const Case c = case_of(grid, {}, trained);
            require_same(c, train_on_threads(alone(c)));
        }
}

namespace {

/// The formulas of torch/adapter_losses.py.
double formula(const std::string& name, i64 index)
{
    const bool of_adapter = is_of_adapter(name), is_norm = name.find("norm") != std::string::npos;
    if (name.ends_with(lora_magnitude))
        return 0;
    i64 code = 0;
    for (std::size_t i = 0; i < name.size(); ++i)
        code += static_cast<i64>(i + 1) * name[i];
    const double wave =
        std::sin(12.9898 * static_cast<double>(index + 1) + 0.618 * static_cast<double>(code % 1000));
    const auto value = static_cast<double>(static_cast<float>(0.3 * wave));
    return is_norm && !of_adapter ? 1 + 0.2 * value : value;
}

std::vector<double> kept(const std::string& name)
{
    std::ifstream file(std::string(TRIVIUM_TEST_DATA) + "/grid/torch/adapters.losses");
    for (std::string line; std::getline(file, line);)
        if (std::istringstream words(line); words >> line && line == name)
            return {std::istream_iterator<double>(words), {}};
    throw InternalError(__FILE__, __LINE__, "no losses of " + name);
}

} // namespace

TEST_CASE("twenty losses with adapters are those of PEFT, on one rank and on eight", "[release]")
{
    LoraConfig all, stable, dora, attention, experts, experts_dora;
    for (LoraConfig* each : {&all, &stable, &dora, &attention, &experts, &experts_dora}) {
        each->rank = 4;
        each->alpha = 6;
    }
    experts.targets = experts_dora.targets = {"*.experts.*"};
    experts.dropout = 0.25;
    experts_dora.magnitudes = true;
    stable.rank_stable = true;
    stable.targets = {"*"};
    dora.magnitudes = true;
    attention.targets = {"*.q.weight", "*.v.*"};
    for (const auto& [name, lora] : {std::pair{"lora", all},
                                     {"stable", stable},
                                     {"dora", dora},
                                     {"attention", attention},
                                     {"experts", experts},
                                     {"experts-dora", experts_dora}})
        for (const i64 each : {1, 2}) {
            Case c;
            c.model = {.layers = 2, .dim = 16, .heads = 4, .kv_heads = 2, .ffn = 24, .vocab = 29, .seq = 12};
            c.trained.lora = lora;
            c.precision = Precision::f32;
            c.steps = 20;
            c.lr = 0.001;
            c.initial = formula;
            c.parallel.data = c.parallel.pipeline = c.parallel.tensor = each;
            c.parallel.zero = each == 1 ? 0 : 1;
            if (lora.targets == experts.targets) {
                c.mixed = OptionSet::experts;
                c.parallel.expert = each;
            }
            c.micro_batch = each == 1 ? 8 : 2;
            for (i64 step = 0; step < c.steps; ++step) {
                runs::TokenBatch& batch = c.batches.emplace_back(batch_of({}, 0));
                batch.seq = c.model.seq;
                batch.tokens.clear();
                batch.targets.clear();
                for (i64 n = 0; n < c.rows * c.model.seq; ++n) {
                    const i64 id = (7 * n * n + 3 * n + 11 * step) % c.model.vocab;
                    batch.tokens.push_back(static_cast<std::int32_t>(id));
                    batch.targets.push_back(
                        n % 6 == 4 ? -1
                                   : static_cast<std::int32_t>((5 * n + id * id + step) % c.model.vocab));
                }
            }
            const std::vector<double> expected = kept(name);
            REQUIRE(expected.size() == 20);
            INFO(name << " " << c.text());
            CHECK(largest_difference(train_on_threads(c).losses, expected) < 1e-4);
        }
}

TEST_CASE("dropout of adapters is the same on every grid, and differs from none", "[release]")
{
    TrainedParameters trained{{}, lora()};
    trained.lora.dropout = 0.25;
    const Outcome one = train_on_threads(alone(case_of({}, {}, trained)));
    for (const Ranks& grid : {Ranks{2, 1, 2, 1, 1}, Ranks{1, 2, 1, 2, 0}, Ranks{1, 1, 2, 3, 0}})
        require_same(case_of(grid, {}, trained), one);
    trained.lora.dropout = 0;
    CHECK(std::abs(train_on_threads(alone(case_of({}, {}, trained))).losses[0] / one.losses[0] - 1) > 1e-6);
}

TEST_CASE(
    "adapters in bf16, and with gradients accumulated and reduced in bf16, lose no more than one rank does",
    "[release]")
{
    Case c = case_of({2, 1, 2, 2, 1}, {}, {{}, lora({}, true)});
    c.precision = Precision::bf16;
    c.steps = 8;
    c.lr = 1e-3;
    c.spread = 0.1;
    const Outcome one = train_on_threads(alone(c));
    for (const GradientType type : {GradientType::f32, GradientType::bf16}) {
        c.parallel.reduce = c.parallel.accumulate = type;
        const Differences d = differences(train_on_threads(c), one);
        INFO(d.text());
        CHECK(d.losses < 2e-2);
        CHECK(d.norms < 5e-2);
    }
}

TEST_CASE("adapters of experts and of latent attention on grids")
{
    const std::pair<OptionSet, Ranks> cases[] = {
        {OptionSet::experts, {2, 1, 2, 1, 3, [](Case& c) { c.parallel.expert = 2; }}},
        {OptionSet::groups, {2, 1, 1, 2, 1, [](Case& c) { c.parallel.expert = 2; }}},
        {OptionSet::latent, {2, 1, 2, 2, 1}},
        {OptionSet::parallel, {1, 1, 2, 2, 0}},
        {OptionSet::gpt2, {2, 1, 2, 1, 2}},
    };
    for (const auto& [options, grid] : cases) {
        if (contracts_on && options != OptionSet::experts && options != OptionSet::latent)
            continue; // sanitizers take their time
        Case c = case_of(grid, options, {{}, lora()});
        c.trained.lora.dropout = 0.2;
        c.trained.lora.magnitudes = options == OptionSet::experts || options == OptionSet::groups;
        require_same(c, train_on_threads(alone(c)));
    }
}

TEST_CASE("patterns that name nothing, and impossible adapters, are refused with what is near")
{
    const auto message = [](TrainedParameters trained, std::optional<OptionSet> options = {}) {
        return message_of<UserError>([&] { config_of(case_of({}, options, std::move(trained))); });
    };
    CHECK(has(message({{"layer.0.*"}, {}}), "'layer.0.*' is the name of no parameter"));
    CHECK(has(message({{"embed.wieght"}, {}}), "did you mean 'embed.weight'?"));
    CHECK(has(message({{"*"}, {}}), "leaves nothing to train"));
    CHECK(has(message({{}, lora({"*.attn_norm.*"})}), "no matrix that can have an adapter"));
    CHECK(has(message({{}, lora({"*"}, true)}), "is not available for embeddings such as embed.weight"));
    TrainedParameters trained{{}, lora()};
    trained.lora.train = {"head.*", "layer*.ffn.*"};
    CHECK_NOTHROW(config_of(case_of({}, {}, trained)));
    trained.lora.train = {"layers.*"};
    CHECK(has(message(trained), "leaves no weight with an adapter"));
    trained.lora = lora({"*.attn.q.weight"});
    trained.lora.train = {"*.attn.*"};
    CHECK(has(message(trained), "names layers.0.attn.q.weight, which train.lora.train"));
    trained.lora.rank = -1;
    CHECK(has(message(trained), "train.lora.rank: must be from 0"));
}
