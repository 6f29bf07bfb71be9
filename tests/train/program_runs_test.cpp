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

TEST_CASE("running statistics are saved, restored on another grid, and read by an evaluation")
{
    const Folder folder;
    foreign::Numbers numbers;
    for (i64 i = 0; i < 64 * 6; ++i)
        numbers.push_back((i * i) % 7 - 2);
    write_text(folder / "x.npy", foreign::numpy_header("<f4", "(64, 6)") + foreign::packed<float>(numbers));
    REQUIRE(run_program({"data", "arrays", "x=x.npy", "--output", "x.h5"}, folder.path()).status == 0);
    write_text(folder / "net.graph", R"(graph net
size b=8 in=6 width=4
mesh model=2
input %x : compute[b,in]
parameter %w : f32[in,width] <-,model> init normal(std=0.5) decay
parameter %mean : f32[width] init fill(value=0.0) update average(decay=0.9)
%h = matmul(%x, %w) {rule="b i, i o -> b o"} : f32[b,width]
%sum = reduce(%h) {combine="sum", dims="0"} : f32[width]
%now = affine(%sum) {alpha=1.0/b} : f32[width]
@ forward block 1
%centre = running_statistic(%mean, %now) : f32[width]
%centres = broadcast(%centre) {dims="1", shape="b width"} : f32[b,width]
%rest = subtract(%h, %centres) : f32[b,width]
%t = tanh(%rest) : f32[b,width]
%squares = multiply(%t, %t) : f32[b,width]
%loss = reduce(%squares) {combine="sum", dims="0 1"} : f32[]
output %loss
)");
    write_text(folder / "run.toml",
               "[model]\nfamily = \"graph\"\nfile = \"net.graph\"\n"
               "[data]\ntrain = \"x.h5\"\nvalid = \"x.h5\"\n"
               "[train]\nsteps = 6\nglobal_batch = 8\nlr = 0.01\neval_every = 6\n[parallel]\nthreads = 1\n"
               "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n");
    const auto train_on = [&](int ranks, std::vector<std::string> more) {
        more.insert(more.begin(), {"train", "run.toml"});
        const Outcome outcome = run_ranks({{ranks, more}}, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 0);
        return outcome.err;
    };
    const auto loss_of = [](const std::string& text, const std::string& before) {
        const auto at = text.find(before);
        INFO(text);
        REQUIRE(at != std::string::npos);
        return std::stod(text.substr(at + before.size()));
    };
    const double whole = loss_of(train_on(1, {}), "validation loss ");
    // The same in two parts, bit for bit.
    const std::vector<std::string> parts{"checkpoint.dir=parts", "log.dir=parts-log"};
    train_on(1, {parts[0], parts[1], "train.stop_after=3"});
    train_on(1, parts);
    const Outcome same =
        run_program({"checkpoint", "diff", "ck/step-00000006", "parts/step-00000006"}, folder.path());
    INFO(same.out << same.err);
    CHECK(same.status == 0);
    CHECK(has(same.out, "all 4 tensors are the same"));
    // From two ranks to two stages.
    const std::vector<std::string> moved{"checkpoint.dir=moved", "log.dir=moved-log"};
    train_on(2, {moved[0], moved[1], "train.stop_after=3", "parallel.axes.model=2", "parallel.zero=1"});
    const double elsewhere =
        loss_of(train_on(2, {moved[0], moved[1], "parallel.pipeline=2"}), "validation loss ");
    CHECK(elsewhere == Approx(whole).epsilon(1e-4));
    const Outcome evaluated = run_program({"eval", "run.toml"}, folder.path());
    CHECK(loss_of(evaluated.out, "loss ") == Approx(whole).epsilon(1e-4));
    for (const std::vector<std::string>& grid : std::vector<std::vector<std::string>>{
             {"parallel.pipeline=2"}, {"parallel.axes.model=2", "parallel.zero=3"}, {"parallel.data=2"}}) {
        std::vector<std::string> arguments{"eval", "run.toml"};
        arguments.insert(arguments.end(), grid.begin(), grid.end());
        const Outcome together = run_ranks({{2, arguments}}, folder.path());
        INFO(grid[0] << together.err);
        REQUIRE(together.status == 0);
        CHECK(loss_of(together.out, "loss ") == Approx(loss_of(evaluated.out, "loss ")).epsilon(1e-5));
    }
    CHECK(has(run_ranks({{2, {"eval", "run.toml"}}}, folder.path()).err, "2 were started"));
    // Another average is another model.
    std::string text = read_text(folder / "net.graph");
    text.replace(text.find("decay=0.9"), 9, "decay=0.8");
    write_text(folder / "net.graph", text);
    CHECK(run_program({"train", "run.toml", "train.steps=8"}, folder.path()).status == 2);
}
