// Settings that must not change a single bit: the pipeline degree at fixed data, tensor, ZeRO and microbatch;
// its schedule; how collectives are merged; whether they overlap. (ZeRO shards the f64 sums of squares of the
// norm.)
#include "base/check.hpp"
#include "catch.hpp"
#include "config/schedules.hpp"
#include "grid/grid_run.hpp"

#include <set>

using namespace trivium;
using namespace trivium::grids;

namespace {

std::string apart(const Outcome& a, const Outcome& b)
{
    return str(same_bits(a, b) ? "" : differences(a, b).text());
}

/// 9 blocks, so that 8 stages are uneven; 12 sequences in microbatches of 2 per data rank.
Case deep(Precision precision, bool tied, i64 data, i64 tensor)
{
    Case c;
    c.model = {!tied, 7, 12, 3, 3, 7, 11, 5, tied};
    c.precision = precision;
    c.rows = 12;
    c.micro_batch = 2;
    c.steps = contracts_on ? 2 : 3;
    c.parallel.data = data;
    c.parallel.tensor = tensor;
    return c;
}

} // namespace

namespace {

std::set<std::string> tried; ///< schedules

void require_pipeline_changes_no_bit(Precision precision, bool tied, i64 data, i64 tensor)
{
    if (contracts_on &&
        ((precision == Precision::f32) == tied || data == tensor)) // sanitizers take their time
        return;
    Case one = deep(precision, tied, data, tensor);
    if (tied == (tensor == 2))
        one.model = runs::regularised(one.model);
    one.parallel.zero = data == 2 && tied == (tensor == 2) ? 1 : 0;
    const Outcome want = train_on_threads(one);
    for (const i64 pipeline : {2, 4, 8}) {
        Case c = one;
        c.parallel.pipeline = pipeline;
        if (c.ranks() > (contracts_on ? 4 : 16))
            continue;
        for (std::size_t k = 0; k < names_of_enum<ScheduleKind>.size(); ++k) {
            const i64 chunks = chunks_of(static_cast<ScheduleKind>(k)).usual;
            const std::size_t others = contracts_on ? 5 : precision == Precision::bf16 ? 4 : 3;
            if (chunks * pipeline > c.model.layers + 2 || (k + c.ranks() / 2 + tied) % others != 0)
                continue;
            c.parallel.schedule = names_of_enum<ScheduleKind>[k];
            tried.insert(c.parallel.schedule);
            INFO(c.text());
            CHECK(apart(train_on_threads(c), want) == "");
        }
    }
}

} // namespace

TEST_CASE("neither the pipeline degree nor its schedule changes a bit")
{
    tried.clear();
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (const i64 tensor : {1, 2}) {
            require_pipeline_changes_no_bit(precision, false, 1, tensor);
            require_pipeline_changes_no_bit(precision, false, 2, tensor);
            require_pipeline_changes_no_bit(precision, true, 1, tensor);
        }
    CHECK((contracts_on || tried.size() == names_of_enum<ScheduleKind>.size()));
}

// The two gradients of a tied table are each reduced over the data ranks before they are added, whether one
// stage has both or two stages have one each.
TEST_CASE("the pipeline degree changes no bit of a tied table over data ranks", "[release]")
{
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (const i64 tensor : {1, 2})
            require_pipeline_changes_no_bit(precision, true, 2, tensor);
}

TEST_CASE("buckets and overlap change no bit", "[release]")
{
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (const int zero : {0, 1, 2, 3}) {
            Case c = deep(precision, zero == 1, 2, 2);
            c.parallel.zero = zero;
            c.model.layers = 3;
            c.parallel.pipeline = 2;
            c.parallel.bucket = "none";
            c.parallel.overlap = false;
            const Outcome want = train_on_threads(c);
            for (const char* bucket : {"none", "auto", "block", "300", "global"})
                for (const bool overlap : {true, false}) {
                    if (precision == Precision::bf16 && !overlap)
                        continue;
                    c.parallel.bucket = bucket;
                    c.parallel.overlap = overlap;
                    INFO(c.text());
                    CHECK(apart(train_on_threads(c), want) == "");
                }
        }
}

TEST_CASE("ranks with different shards make the same buckets")
{
    Case c; // heads, columns and tokens divide unevenly over the tensor ranks
    c.model = {false, 3, 6, 3, 3, 11, 13, 5, true};
    c.rows = 24;
    c.micro_batch = 12;
    c.steps = 1;
    c.parallel.data = c.parallel.tensor = 2;
    c.parallel.zero = 2;
    c.parallel.bucket = "none";
    const Outcome want = train_on_threads(c);
    for (const char* bucket : {"100", "300", "700"}) {
        c.parallel.bucket = bucket;
        CHECK(apart(train_on_threads(c), want) == "");
    }
}

TEST_CASE("a model that needs three times the limit trains under it, with the same bits", "[release]")
{
    Case c;
    c.model = {true, 10, 128, 4, 4, 344, 64, 256, false};
    c.precision = Precision::f32;
    c.rows = c.micro_batch = 8;
    c.steps = 2;
    c.lr = 1e-3;
    const Outcome want = train_on_threads(c);
    const Bytes plain = compile(c, 0).memory.arena;
    c.parallel.memory_limit = plain / 3;
    c.parallel.recompute = Recompute::automatic;
    CHECK(compile(c, 0).memory.arena <= plain / 3);
    CHECK(apart(train_on_threads(c), want) == "");
}

TEST_CASE("recomputation changes no bit, nor does a second gather", "[release]")
{
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (const bool tied : {false, true}) {
            Case c = deep(precision, tied, 2, 2);
            c.parallel.zero = 3;
            c.model.layers = 3;
            c.parallel.pipeline = 2;
            c.parallel.gather_every = GatherEvery::step;
            if ((precision == Precision::f32) == tied)
                c.model = runs::regularised(c.model);
            const Outcome want = train_on_threads(c);
            for (const GatherEvery gather : {GatherEvery::microbatch, GatherEvery::pass})
                for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                    if (gather == GatherEvery::microbatch && recompute == Recompute::none)
                        continue;
                    c.parallel.gather_every = gather;
                    c.parallel.recompute = recompute;
                    INFO(c.text());
                    CHECK(apart(train_on_threads(c), want) == "");
                }
        }
}

TEST_CASE("another order of addition does change bits", "[release]")
{
    // Otherwise the comparisons above could not fail.
    const Case one = deep(Precision::f32, false, 1, 1);
    Case c = one;
    c.parallel.data = 2;
    CHECK(apart(train_on_threads(c), train_on_threads(one)) != "");
}

// Clipped and refused steps come alone and several in a row, after a step that began ahead and after one that
// did not; each second batch counts all tokens, the others fewer than a post-validated update assumes.
TEST_CASE("whether updates wait for the norm changes no bit")
{
    struct Grid {
        i64 data, pipeline, tensor, zero;
        const char* schedule;
    };
    int repaired = 0, kept = 0;
    for (const Grid& g : {Grid{1, 1, 1, 0, "1f1b"}, Grid{2, 1, 2, 1, "1f1b"}, Grid{1, 4, 1, 0, "zb-h2"},
                          Grid{2, 2, 1, 1, "1f1b"}, Grid{2, 2, 1, 3, "zb-v"}, Grid{1, 3, 1, 0, "interleaved"},
                          Grid{1, 2, 2, 0, "zb-h1"}, Grid{2, 2, 1, 2, "gpipe"}})
        for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::muon}) {
            const bool muon = optimizer == OptimizerKind::muon;
            const bool in_short = !muon && g.data == 2 && g.pipeline == 2 && g.zero == 1;
            if ((contracts_on && !in_short) || (muon && (g.pipeline != 2 || g.tensor > 1)))
                continue;
            Case c = deep(muon ? Precision::f64 : Precision::bf16, g.zero == 1, g.data, g.tensor);
            c.optimizer = optimizer;
            if (g.pipeline == 2)
                c.model = runs::regularised(c.model);
            c.parallel.pipeline = g.pipeline;
            c.parallel.schedule = g.schedule;
            c.parallel.zero = g.zero;
            c.steps = 7;
            c.counts_all = true;
            c.clip = 0;
            std::vector<double> norms = train_on_threads(c).norms;
            std::nth_element(norms.begin(), norms.begin() + 3, norms.end());
            for (const auto& [clip, refused] : {std::pair(0.0, std::set<int>{}),
                                                {norms[3], std::set<int>{0, 3, 4, 5}},
                                                {1e-3, std::set<int>{}}}) {
                if (contracts_on && clip == 1e-3)
                    continue;
                c.clip = clip;
                c.refused = refused;
                c.parallel.update = UpdateMode::synchronous;
                const Outcome want = train_on_threads(c);
                for (const double norm : want.norms)
                    (clip > 0 && norm > clip ? repaired : kept) += 1;
                c.parallel.update = UpdateMode::post_validated;
                INFO(c.text() << ", clip " << clip << ", refused " << refused.size());
                CHECK(apart(train_on_threads(c), want) == "");
            }
        }
    CHECK(std::min(repaired, kept) > (contracts_on ? 2 : 10));
}
