// The check finds each fault that is injected into one rank or into all, and names the part, the ranks and
// the problem.
#include "base/check.hpp"
#include "base/clock.hpp"
#include "catch.hpp"
#include "check/report.hpp"
#include "faulty_comm.hpp"
#include "grid/mutants.hpp"
#include "io/temporary_folder.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

using namespace trivium;
using namespace trivium::faults;

namespace {

/// Trainings in which ZeRO alone communicates along the axis `data`.
bool by_data(const RunConfig& c)
{
    return c.train.precision == Precision::f32 && c.parallel.reduce == GradientType::f32 &&
           c.parallel.zero <= 1 && c.parallel.context == 1 && c.parallel.expert == 1;
}

/// Trainings on four ranks that use every axis, in a precision that shows small errors.
bool few(const RunConfig& c)
{
    return c.model.family == Family::llama && c.train.precision == Precision::f32 &&
           c.parallel.reduce == GradientType::f32 &&
           (!contracts_on || // sanitizers take their time
            (c.parallel.recompute != Recompute::selective && c.parallel.zero != 2));
}

void only(Rank& me, CheckPart part)
{
    me.config.parts = {part};
    me.config.hooks.chosen = few;
}

/// All findings are of this part, and one of them contains `words` for exactly these ranks.
void require_found(const CheckReport& report, CheckPart part, const std::vector<int>& ranks,
                   const std::string& words)
{
    INFO(to_text(report));
    CHECK(report.status() == 1);
    bool found = false;
    for (const Finding& f : report.findings) {
        CHECK(f.part == part);
        CHECK_FALSE((f.expected.empty() || f.seen.empty() || f.remedy.empty()));
        found = found || (f.ranks == ranks && f.problem.find(words) != std::string::npos);
    }
    CHECK(found);
}

const std::vector<int> all_four{0, 1, 2, 3};

/// A check of trainings on four ranks, with a fault in the program that rank `me` has compiled, or in the
/// data that it receives.
CheckReport composition(const std::function<void(Rank&)>& fault)
{
    return check_on_threads(4, [&](Rank& me) {
        only(me, CheckPart::composition);
        fault(me);
    });
}

void zero(const Piece& piece)
{
    if (piece.bytes > 0)
        std::memset(piece.data, 0, static_cast<std::size_t>(piece.bytes));
}

} // namespace

TEST_CASE("without a fault nothing is found", "[release]")
{
    const CheckReport report = composition([](Rank&) {});
    INFO(to_text(report));
    CHECK(report.findings.empty());
    CHECK(report.status() == 0);
}

TEST_CASE("a wrong divisor of the gradient mean", "[release]")
{
    // Losses and tokens are counted twice: the mean loss is right, the mean gradient is not.
    const CheckReport report = composition([](Rank& me) {
        me.config.hooks.compiled = [](const RunConfig&, Compiled& compiled) {
            Graph& g = compiled.programs[train_program].graph;
            const auto op = std::find_if(g.ops.begin(), g.ops.end(), [](const Op& o) {
                return o.kind == OpKind::all_reduce && *o.attrs->axis == "world";
            });
            REQUIRE(op != g.ops.end());
            grids::double_results(g, OpId(static_cast<std::size_t>(op - g.ops.begin())));
            grids::lay_out_again(compiled);
        };
    });
    require_found(report, CheckPart::composition, all_four, "results differ from those of one rank");
    INFO(to_text(report));
    CHECK(report.findings[0].seen.find("(0.7071 times)") != std::string::npos); // the norm: sqrt(2 s) / 2 t
    CHECK(report.findings[0].seen.find("(1 times)") != std::string::npos);      // the loss
}

TEST_CASE("a reduction over data ranks that is left out", "[release]")
{
    const CheckReport report = composition([](Rank& me) {
        // Muon reduces over data ranks with ZeRO, too, and so do small weights of other blocks.
        me.config.hooks.chosen = [](const RunConfig& c) {
            return c.train.optimizer == OptimizerKind::adamw && c.model.placement == Placement::pre;
        };
        me.config.hooks.compiled = [](const RunConfig&, Compiled& compiled) {
            for (Op& op : compiled.programs[train_program].graph.ops)
                if (op.kind == OpKind::all_reduce && *op.attrs->axis == "data")
                    op.attrs.edit().axis = "nobody";
        };
    });
    require_found(report, CheckPart::composition, all_four, "results differ from those of one rank");
    INFO(report.findings[0].problem);
    CHECK(report.findings[0].problem.find("data > 1 without zero; no correct case has them") !=
          std::string::npos);
}

TEST_CASE("other ranks' contributions to gradients of ZeRO 1 do not arrive", "[release]")
{
    std::vector<std::vector<const Op*>> moves(4);
    const CheckReport report = composition([&](Rank& me) {
        me.config.hooks.chosen = [](const RunConfig& c) { return by_data(c); };
        me.config.hooks.compiled = [&, rank = me.rank](const RunConfig&, Compiled& c) {
            moves[static_cast<std::size_t>(rank)] = collectives_of(c.programs[train_program], "data");
        };
        me.faults.exchanged = [&, rank = me.rank](const std::string& axis, i64 turn,
                                                  std::span<const Piece> pieces) {
            const auto& all = moves[static_cast<std::size_t>(rank)];
            if (axis == "data" &&
                all[static_cast<std::size_t>(turn) % all.size()]->kind == OpKind::reduce_scatter)
                std::for_each(pieces.begin(), pieces.end(), zero);
        };
    });
    INFO(to_text(report));
    REQUIRE_FALSE(report.findings.empty());
    CHECK(report.status() == 1);
    CHECK(report.findings[0].problem.find("zero 1") != std::string::npos);
}

TEST_CASE("swapped pieces of an exchange on one rank", "[release]")
{
    const CheckReport report = composition([](Rank& me) {
        me.config.hooks.chosen = [](const RunConfig& c) {
            return few(c) && c.parallel.pipeline == 1 && c.parallel.sequence;
        };
        if (me.rank == 2)
            me.faults.exchanged = [](const std::string& axis, i64, std::span<const Piece> pieces) {
                if (axis == "tensor" && pieces[0].bytes == pieces[1].bytes && pieces[0].bytes > 0)
                    std::swap_ranges(pieces[0].data, pieces[0].data + pieces[0].bytes, pieces[1].data);
            };
    });
    require_found(report, CheckPart::composition, all_four, "results differ from those of one rank");
    CHECK(report.findings[0].problem.find(" x tensor 1") == std::string::npos); // the first that differs
}

TEST_CASE("parameters of ZeRO 1 that are gathered from the previous step", "[release]")
{
    std::vector<std::vector<const Op*>> moves(4);
    const CheckReport report = composition([&](Rank& me) {
        auto kept = std::make_shared<std::map<std::pair<i64, std::size_t>, std::vector<std::byte>>>();
        me.config.hooks.chosen = [](const RunConfig& c) { return by_data(c); };
        me.config.hooks.compiled = [&, kept, rank = me.rank](const RunConfig&, Compiled& c) {
            moves[static_cast<std::size_t>(rank)] = collectives_of(c.programs[train_program], "data");
            kept->clear();
        };
        me.faults.exchanged = [&, kept, rank = me.rank](const std::string& axis, i64 turn,
                                                        std::span<const Piece> pieces) {
            const auto& all = moves[static_cast<std::size_t>(rank)];
            if (axis != "data" ||
                all[static_cast<std::size_t>(turn) % all.size()]->kind != OpKind::all_gather)
                return;
            for (std::size_t p = 0; p < pieces.size(); ++p) {
                std::vector<std::byte> now(pieces[p].data, pieces[p].data + pieces[p].bytes);
                std::vector<std::byte>& before = (*kept)[{turn % static_cast<i64>(all.size()), p}];
                if (before.size() == now.size())
                    std::copy(before.begin(), before.end(), pieces[p].data);
                before = now;
            }
        };
    });
    require_found(report, CheckPart::composition, all_four, "; no correct case has them");
    CHECK(report.findings[0].problem.find("common settings: zero 1") != std::string::npos);
    CHECK(report.findings[0].expected.find("step 1:") == std::string::npos); // the first step is right
}

TEST_CASE("activations of the previous microbatch", "[release]")
{
    const CheckReport report = composition([](Rank& me) {
        auto kept = std::make_shared<std::map<std::pair<int, int>, std::vector<std::byte>>>();
        me.config.hooks.compiled = [kept](const RunConfig&, Compiled&) { kept->clear(); };
        me.faults.received = [kept](const std::string& axis, int from, int tag, const Piece& piece) {
            if (axis != "pipeline")
                return;
            std::vector<std::byte> now(piece.data, piece.data + piece.bytes), &before = (*kept)[{from, tag}];
            if (before.size() == now.size())
                std::copy(before.begin(), before.end(), piece.data);
            before = now;
        };
    });
    require_found(report, CheckPart::composition, all_four, "pipeline > 1");
}

TEST_CASE("a microbatch that is counted twice while another is lost", "[release]")
{
    const CheckReport report = composition([](Rank& me) { // checks of dead buffers would detect it first
        me.config.hooks.compiled = [](const RunConfig&, Compiled& compiled) {
            for (Step& step : compiled.programs[train_program].schedule.steps)
                if (step.kind == StepKind::feed && step.microbatch == 1)
                    step.microbatch = 0;
        };
    });
    require_found(report, CheckPart::composition, all_four, "several microbatches; no correct case has them");
}

TEST_CASE("another seed on one rank", "[release]")
{
    const CheckReport report = composition([](Rank& me) {
        if (me.rank == 2)
            me.config.hooks.config = [](RunConfig& c) { c.train.seed = 8; };
    });
    require_found(report, CheckPart::composition, {2}, "initial parameters differ from those of one rank");
}

TEST_CASE("a flipped bit in a contribution to a sum that one rank receives")
{
    const CheckReport report = composition([](Rank& me) {
        me.config.hooks.chosen = [](const RunConfig& c) {
            return c.parallel.data == 4 && c.parallel.zero == 0;
        };
        if (me.rank == 1)
            me.faults.exchanged = [](const std::string& axis, i64, std::span<const Piece> pieces) {
                if (axis == "data" && pieces[3].bytes > 0)
                    pieces[3].data[0] ^= std::byte{1}; // the last bit of a mantissa: no loss shows it
            };
    });
    require_found(report, CheckPart::composition, {1}, "bits differ from ranks that hold the same");
}

TEST_CASE("wrong arithmetic on one rank, each time or once")
{
    for (const bool once : {false, true}) {
        const CheckReport report = check_on_threads(4, [&](Rank& me) {
            only(me, CheckPart::arithmetic);
            if (me.rank == 3)
                me.config.hooks.computed = [once, times = 0](const std::string& kernel,
                                                             std::vector<double>& numbers) mutable {
                    if (kernel == "attention f32" && (++times == 2 || !once))
                        numbers[numbers.size() / 2] += once ? 1e-6 : 1e-2;
                };
        });
        require_found(report, CheckPart::arithmetic, {3}, "wrong arithmetic: attention f32");
        CHECK(report.findings[0].seen.find(once ? "different bits when repeated" : "off by 0.0") !=
              std::string::npos);
    }
}

TEST_CASE("a kernel that fails on one rank")
{
    const CheckReport report = check_on_threads(4, [&](Rank& me) {
        only(me, CheckPart::arithmetic);
        if (me.rank == 2)
            me.config.hooks.computed = [](const std::string& kernel, std::vector<double>&) {
                if (kernel == "product bf16")
                    throw std::runtime_error("no such product");
            };
    });
    require_found(report, CheckPart::arithmetic, {2}, "a kernel fails");
    CHECK(report.findings[0].seen == "no such product");
}

TEST_CASE("a different build, different libraries, a different number of threads, a wrong clock")
{
    const auto environment = [](const std::function<void(Rank&)>& fault) {
        return check_on_threads(4, [&](Rank& me) {
            only(me, CheckPart::environment);
            if (me.rank == 3)
                fault(me);
        });
    };
    require_found(environment([](Rank& me) { me.facts.build = "an older build"; }), CheckPart::environment,
                  {3}, "a different build");
    require_found(environment([](Rank& me) { me.facts.libraries = "libmpi.so.40 2\n"; }),
                  CheckPart::environment, {3}, "different libraries");
    require_found(environment([](Rank& me) { me.facts.threads = 0; }), CheckPart::environment, {3},
                  "a different number of threads");
    const CheckReport late = environment([](Rank& me) { me.config.hooks.clock = [] { return 1e9; }; });
    require_found(late, CheckPart::environment, {3}, "wrong clock");
    CHECK(late.findings[0].seen.find("behind") != std::string::npos);
}

TEST_CASE("a folder that is not shared, or cannot be written to")
{
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "shared");
    std::filesystem::create_directory(folder / "other");
    std::ofstream(folder / "file") << "no folder";
    const auto check = [&](const std::string& of_node_1) {
        return check_on_threads(4, [&](Rank& me) {
            only(me, CheckPart::folder);
            me.config.dir = folder / (me.rank < 2 ? "shared" : of_node_1);
        });
    };
    const CheckReport good = check("shared");
    INFO(to_text(good));
    CHECK(good.status() == 0);
    CHECK(good.folder.size() == 2);
    require_found(check("other"), CheckPart::folder, {2, 3}, "is not the folder that rank 0 sees");
    const CheckReport file = check_on_threads(2, [&](Rank& me) {
        only(me, CheckPart::folder);
        me.config.dir = folder / "file";
    });
    require_found(file, CheckPart::folder, {0}, "no folder can be made");
    CHECK(std::filesystem::is_empty(folder / "shared")); // nothing is left behind
    CHECK(std::filesystem::is_empty(folder / "other"));
}
