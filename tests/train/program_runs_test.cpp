// Runs of programs of the user's own, under the launcher.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "program.hpp"

using namespace trivium;

TEST_CASE(
    "a program runs on a grid that it chooses, and resumes on another one and with another default batch")
{
    const Folder folder;
    foreign::Numbers numbers;
    for (i64 i = 0; i < 64 * 6; ++i)
        numbers.push_back(i % 5 - 2);
    write_text(folder / "x.npy", foreign::numpy_header("<f4", "(64, 6)") + foreign::packed<float>(numbers));
    REQUIRE(run_program({"data", "arrays", "x=x.npy", "--output", "x.h5"}, folder.path()).status == 0);
    const auto write_program = [&](const std::string& size, const std::string& op) {
        write_text(folder / "net.graph",
                   "graph net\nsize b=" + size +
                       " in=6 width=8\nmesh samples=2 model=1\ninput %x : compute[b,in] <samples,->\n"
                       "parameter %w : f32[in,width] <-,model> init normal(std=0.5) decay\n"
                       "@ forward block 0\n"
                       "%h = matmul(%x, %w) {rule=\"b i, i o -> b o\"} : compute[b,width]\n"
                       "@ forward block 1\n%t = " +
                       op +
                       "(%h) : compute[b,width]\n"
                       "%loss = reduce(%t) {combine=\"sum\", dims=\"0 1\"} : f32[]\noutput %loss\n");
    };
    write_text(folder / "run.toml",
               "[model]\nfamily = \"graph\"\nfile = \"net.graph\"\n[data]\ntrain = \"x.h5\"\n"
               "[train]\nsteps = 6\nglobal_batch = 8\n[parallel]\nstrategy = \"auto\"\nthreads = 1\n"
               "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n");
    const auto train_on = [&](int ranks, const std::string& more) {
        return run_ranks({{ranks, {"train", "run.toml", more}}}, folder.path());
    };
    write_program("8", "tanh");
    const Outcome first = train_on(2, "train.stop_after=3");
    INFO(first.err);
    CHECK(first.status == 0);
    write_program("16", "tanh");
    const Outcome second = train_on(1, "train.stop_after=2");
    INFO(second.err);
    CHECK(second.status == 0);
    CHECK(has(second.err, "step 3"));
    write_program("16", "exp");
    CHECK(train_on(1, "train.stop_after=1").status == 2); // another model
}
