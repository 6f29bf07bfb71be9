// Any layout of ranks resumes from a checkpoint of any other: the same tensors bit for bit, the same position
// in the data, and the losses of the uninterrupted run.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "runtime/device.hpp"
#include "soak_settings.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>

using namespace trivium;
using namespace trivium::tiny;

namespace {

constexpr i64 saved_step = 3, batch = 12;

/// A run that saved at step 3 and continued to the end.
struct Saved {
    std::string path;
    Content content;
    std::vector<double> later; ///< losses from step 4 on
};

struct Pair {
    std::size_t from, to;
};

/// Every layout reads and is read; the checkpoints of 8 ranks are read by 6, 5, 3 and 1.
std::vector<Pair> slice()
{
    return {{10, 8}, {10, 6}, {10, 3}, {10, 0}, {11, 9}, {11, 7}, {11, 4}, {0, 10}, {8, 11},
            {9, 5},  {7, 1},  {6, 2},  {5, 9},  {4, 11}, {3, 10}, {2, 6},  {1, 8},  {0, 7}};
}

std::vector<Pair> all_pairs()
{
    std::vector<Pair> all;
    for (std::size_t from = 0; from < layouts().size(); ++from)
        for (std::size_t to = 0; to < layouts().size(); ++to)
            if (from != to)
                all.push_back({from, to});
    return all;
}

/// The pairs of this test: the slice, then in a campaign others while time is left; or all.
std::vector<Pair> chosen(std::size_t& required)
{
    std::vector<Pair> rest = all_pairs();
    if (soak::whole()) {
        required = rest.size();
        return rest;
    }
    std::vector<Pair> pairs = slice();
    if (contracts_on) // sanitizers take their time
        pairs.resize(1);
    required = pairs.size();
    std::mt19937_64 random(soak::seed());
    std::shuffle(rest.begin(), rest.end(), random);
    pairs.insert(pairs.end(), rest.begin(), rest.end());
    return pairs;
}

bool has_negative(const std::vector<std::byte>& f32)
{
    std::vector<float> values(f32.size() / sizeof(float));
    std::memcpy(values.data(), f32.data(), f32.size());
    return std::any_of(values.begin(), values.end(), [](float value) { return value < 0; });
}

/// Squares are called adam_v, averages adam_m or muon_m.
bool moments_are_named(const Content& content)
{
    return std::all_of(content.tensors.begin(), content.tensors.end(), [](const auto& tensor) {
        const auto& [name, bytes] = tensor;
        return name.starts_with("param/") || has_negative(bytes) != name.starts_with("adam_v/");
    });
}

class Matrix {
public:
    explicit Matrix(Precision precision, OptimizerKind optimizer = OptimizerKind::adamw)
        : ground_(folder_.path()), precision_(precision), optimizer_(optimizer)
    {
    }

    /// Families with and without tied embeddings take turns; the two precisions of a pair use different ones.
    Model model(std::size_t from) const
    {
        return model_of(static_cast<int>(from) + (precision_ == Precision::bf16 ? 2 : 0));
    }

    const Saved& saved(std::size_t from)
    {
        const auto [at, added] = saved_.try_emplace(from);
        if (!added)
            return at->second;
        RunConfig config = ground_.config(model(from), precision_, layouts()[from], str("from-", from));
        config.train.optimizer = optimizer_;
        config.checkpoint.every = saved_step;
        at->second.later = train(config, saved_step + 1);
        at->second.path = str(config.checkpoint.dir, "/", checkpoint_name(saved_step));
        at->second.content = content(at->second.path);
        CHECK(moments_are_named(at->second.content));
        return at->second;
    }

    void check(const Pair& pair)
    {
        INFO(name_of(precision_) << ", " << name_of(model(pair.from).family)
                                 << (model(pair.from).tied ? ", tied" : "") << "\n  saved by "
                                 << layouts()[pair.from].text() << "\n  loaded by "
                                 << layouts()[pair.to].text());
        const Saved& source = saved(pair.from);
        REQUIRE(source.later.size() == 5);
        RunConfig config =
            ground_.config(model(pair.from), precision_, layouts()[pair.to], str("to-", count_++));
        config.train.optimizer = optimizer_;
        config.checkpoint.resume = source.path;

        RunConfig still = standing_still(config);
        const std::vector<double> same_samples = train(still);
        const Content restored = content(str(still.checkpoint.dir, "/", checkpoint_name(saved_step + 1)));
        CHECK(difference(restored, source.content) == "");
        CHECK(source.content.state.step == saved_step);
        CHECK(restored.state.step == saved_step + 1);
        CHECK(restored.state.updates == source.content.state.updates + 1);
        CHECK(source.content.state.samples == saved_step * batch);
        CHECK(restored.state.samples == source.content.state.samples + batch);
        CHECK(restored.state.tokens - source.content.state.tokens ==
              source.content.state.tokens / saved_step); // every sequence is full
        std::filesystem::remove_all(still.checkpoint.dir);
        std::filesystem::remove_all(still.log.dir);

        const std::vector<double> losses = train(config, saved_step + 1);
        REQUIRE(losses.size() == source.later.size());
        const double allowed = precision_ == Precision::bf16 ? 2e-2 : 1e-5;
        for (std::size_t i = 0; i < losses.size(); ++i)
            CHECK(std::abs(losses[i] - source.later[i]) <= allowed * source.later[i]);
        REQUIRE(same_samples.size() == 1);
        CHECK(same_samples[0] == losses[0]);
        std::filesystem::remove_all(config.checkpoint.dir);
        std::filesystem::remove_all(config.log.dir);
    }

private:
    TemporaryFolder folder_;
    Ground ground_;
    Precision precision_;
    OptimizerKind optimizer_;
    std::map<std::size_t, Saved> saved_;
    int count_ = 0;
};

} // namespace

TEST_CASE("the layouts are the documented ones")
{
    std::set<i64> ranks;
    for (const Layout& layout : layouts())
        ranks.insert(layout.ranks());
    CHECK(layouts().size() == 12);
    CHECK(ranks == std::set<i64>{1, 2, 3, 4, 5, 6, 8});
    std::set<std::size_t> from, to;
    for (const Pair& pair : slice()) {
        from.insert(pair.from);
        to.insert(pair.to);
    }
    CHECK(from.size() == 12);
    CHECK(to.size() == 12);
}

TEST_CASE("any layout resumes from the checkpoint of any other")
{
    if (computes_on_device())
        return; // threads of one process do not share a device
    std::size_t required = 0, tried = 0;
    const std::vector<Pair> pairs = chosen(required);
    Matrix f32(Precision::f32), bf16(Precision::bf16);
    const soak::Budget budget;
    for (const Pair& pair : pairs) {
        if (tried >= required && !budget.left())
            break;
        f32.check(pair);
        if (required == pairs.size() || tried % 3 == 0 || tried >= required)
            bf16.check(pair);
        ++tried;
    }
    std::printf("%zu of %zu pairs of layouts\n", tried, all_pairs().size());
}

TEST_CASE("so does a run with Muon, but not with the other optimizer")
{
    if (computes_on_device())
        return;
    Matrix muon(Precision::f32, OptimizerKind::muon);
    muon.check({10, 3});
    if (!contracts_on) // sanitizers take their time
        muon.check({0, 11});
    const TemporaryFolder folder;
    const Ground ground(folder.path());
    RunConfig config = ground.config(model_of(10), Precision::f32, layouts()[0], "other");
    config.checkpoint.resume = muon.saved(10).path;
    try {
        train(config);
        FAIL("AdamW resumed from Muon's states");
    } catch (const UserError& error) {
        INFO(error.what());
        CHECK(std::string(error.what()).find("train.optimizer") != std::string::npos);
    }
}

TEST_CASE("offload may change between launches, without a different bit")
{
    if (computes_on_device())
        return;
    const TemporaryFolder folder;
    const Ground ground(folder.path());
    const auto run = [&](Offload offload, const std::string& name, const std::string& from) {
        RunConfig config = ground.config(model_of(2), Precision::bf16, layouts()[3], name); // ZeRO 1
        config.checkpoint.every = saved_step;
        config.parallel.offload = offload;
        config.checkpoint.resume = from.empty() ? "auto" : from;
        train(config);
        return config.checkpoint.dir;
    };
    const auto at = [](const std::string& dir, i64 step) { return str(dir, "/", checkpoint_name(step)); };
    const std::string off = run(Offload::none, "off", ""), on = run(Offload::optimizer, "on", "");
    const i64 last = 8;
    const Content want = content(at(off, last));
    CHECK(difference(content(at(on, saved_step)), content(at(off, saved_step))) == "");
    CHECK(difference(content(at(on, last)), want) == "");
    CHECK(difference(content(at(run(Offload::optimizer, "off-on", at(off, saved_step)), last)), want) == "");
    CHECK(difference(content(at(run(Offload::none, "on-off", at(on, saved_step)), last)), want) == "");
    CHECK(difference(content(at(off, saved_step)), want) != "");
}
