// A program of the user's own has the same losses, parameters and moments on every grid as on one rank.
#include "catch.hpp"
#include "grid/programs.hpp"

#include "base/check.hpp"
#include "config/schedules.hpp"
#include "model/program.hpp"

using namespace trivium;
using namespace trivium::grids;

namespace {

/// A classifier: hidden width over y, samples over x.
const std::string classifier = R"(graph classifier
size b=8 in=12 width=10 classes=7
mesh x=2 y=2
input %image : compute[b,in] <x,->
input %label : i32[b]
parameter %w1 : f32[in,width] <-,y> init normal(std=0.3) decay
parameter %b1 : f32[width] init fill(value=0.1)
parameter %w2 : f32[width,classes] init normal(std=0.3) decay
%h1 = matmul(%image, %w1) {rule="b i, i w -> b w"} : compute[b,width]
%h2 = bias_add(%h1, %b1) {rule="b w, w -> b w"} : compute[b,width]
%h3 = tanh(%h2) : compute[b,width]
%logits = matmul(%h3, %w2) {rule="b w, w c -> b c"} : compute[b,classes]
%lse, %picked = xent_stats(%logits, %label) : f32[b], f32[b]
%each = subtract(%lse, %picked) : f32[b]
%loss = reduce(%each) {combine="sum", dims="0"} : f32[]
%best, %choice = top_k(%logits) {count=1} : compute[b,1], i32[b,1]
%choices = reshape(%choice) {shape="b"} : i32[b]
%right = compare(%choices, %label) {direction="eq"} : i32[b]
%hits = cast(%right) {dtype="f32"} : f32[b]
%accuracy = reduce(%hits) {combine="sum", dims="0"} : f32[]
output %loss
output %accuracy
)";

/// A convolutional net with a skip connection on odd extents: rows over x, channels over y; two blocks that
/// are written once; normalised over samples and space. Its loss counts pixels.
const std::string fields = R"(graph fields
size b=8 rows=9 columns=5 channels=3
size numbers=b*rows*columns
mesh x=2 y=2
input %x.in : compute[b,1,rows,columns] <-,-,x,->
input %target : compute[b,1,rows,columns]
parameter %first : f32[channels,1,3,3] <y,-,-,-> init normal(std=0.4) decay
%x.0 = convolution(%x.in, %first) {low="1 1", high="1 1"} : compute[b,channels,rows,columns] <-,y,x,->
repeat i 2 {
  @ forward block ${i+1} block$i
  parameter %w.$i : f32[channels,channels,3,3] init normal(std=0.3) decay
  %c.$i = convolution(%x.$i, %w.$i) {low="1 1", high="1 1"} : compute[b,channels,rows,columns]
)" + batch_norm_lines(false) +
                           R"(  %t.$i = tanh(%n.$i) : f32[b,channels,rows,columns]
  %x.${i+1} = add(%x.$i, %t.$i) : f32[b,channels,rows,columns]
}
@ forward block 3 head
parameter %last : f32[1,channels,1,1] init normal(std=0.4) decay
%both = add(%x.2, %x.0) : f32[b,channels,rows,columns]
%out = convolution(%both, %last) {low="0 0", high="0 0"} : f32[b,1,rows,columns]
%d = subtract(%out, %target) : f32[b,1,rows,columns]
%dd = multiply(%d, %d) : f32[b,1,rows,columns]
%loss = reduce(%dd) {combine="sum", dims="0 1 2 3"} : f32[]
%later = transpose(%x.1) {dims="0 1 3 2"} : f32[b,channels,columns,rows]
%one = constant() {dtype="f32", shape="b 1 rows columns", value=1.0} : f32[b,1,rows,columns]
%count = reduce(%one) {combine="sum", dims="0 1 2 3"} : f32[]
output %loss
output %count
output %out
output %later
)";

} // namespace

TEST_CASE("a convolutional net")
{
    // One microbatch, because its norm is over the samples of one.
    const auto on = [](i64 x, i64 y) { return ProgramAxes{{{"x", x}, {"y", y}}}; };
    CHECK(train_program({.text = fields, .samples = 4}, 1).shown.size() == 2 * 2 * 9 * 5);
    check_same_on({.text = fields, .samples = 4}, 1,
                  {{on(2, 1)},
                   {on(3, 1)},
                   {on(1, 2)},
                   {on(2, 2), 2, 1, 1},
                   {on(2, 1), 4, 1, 3},
                   {on(4, 1), 2, 1, 2, Recompute::full},
                   {on(2, 1), 1, 2, 0},
                   {on(1, 2), 1, 4, 0, Recompute::selective},
                   {on(2, 1), 2, 2, 3}});
}

TEST_CASE("a classifier")
{
    std::vector<ProgramMesh> meshes;
    for (const ProgramAxes& axes :
         {ProgramAxes{{{"x", 2}}}, ProgramAxes{{{"y", 2}}}, ProgramAxes{{{"x", 2}, {"y", 2}}}})
        for (const i64 data : {1, 2})
            for (const i64 zero : {0, 1, 2, 3})
                meshes.push_back({axes, data, 1, zero, Recompute::none, 1});
    check_same_on({.text = classifier}, 7, meshes);
}

TEST_CASE("a program that names parts of an axis")
{
    // Rank by rank, so that a part of the axis shards what others repeat
    const std::string text = R"(graph parts
size b=4
mesh x=4
input %in : f32[b,4] <-,x:(1)2>
parameter %p : f32[4,3] <x:(1)2,-> init normal(std=0.4)
%v = matmul(%in, %p) {rule="b i, i o -> b o"} : f32[b,3] <-,->
%w = multiply(%v, %v) : f32[b,3]
%loss = reduce(%w) {combine="sum", dims="0 1"} : f32[]
output %loss
)";
    ProgramCase one{.text = text};
    const ProgramOutcome want = train_program(one, 7);
    ProgramCase c = one;
    c.parallel.axes.list = {{"x", 4}};
    CHECK(differences(train_program(c, 7), want).most() < 1e-9);
    c.parallel.axes.list = {{"x", 3}};
    CHECK_THROWS_AS(train_program(c, 7), trivium::UserError);
}

TEST_CASE("gradients of weights whose stage has no other backward pass")
{
    const std::string text = R"(graph skips
size b=4
mesh x=1
input %in : f32[b,6]
parameter %p : f32[6,5] init normal(std=0.4)
%first = matmul(%in, %p) {rule="b i, i o -> b o"} : f32[b,5]
@ forward block 1
%second = tanh(%first) : f32[b,5]
@ forward block 2
parameter %q : f32[6,5] init normal(std=0.4)
%third = matmul(%in, %q) {rule="b i, i o -> b o"} : f32[b,5]
@ forward block 3
%skip = multiply(%second, %first) : f32[b,5]
%square = multiply(%third, %third) : f32[b,5]
%both = add(%skip, %square) : f32[b,5]
%loss = reduce(%both) {combine="sum", dims="0 1"} : f32[]
output %loss
)";
    ProgramCase one{.text = text};
    const ProgramOutcome want = train_program(one, 7);
    for (const char* schedule : {"zb-v", "v-half", "v-min", "dualpipe-v", "interleaved", "zb-h1"}) {
        ProgramCase c = one;
        c.parallel.pipeline = 2;
        c.parallel.schedule = schedule;
        c.micro_batch = 2;
        const ProgramDifferences d = differences(train_program(c, 7), want);
        INFO(schedule << ": " << d.text());
        CHECK(d.most() < 1e-9);
    }
}

TEST_CASE("values that skip stages, with every schedule")
{
    // The last block reads all others, which therefore get gradients from it.
    ProgramCase c{.text = R"(graph skips
size b=8 width=3 layers=8
mesh x=1
input %x.0 : f32[b,width]
%squares = multiply(%x.0, %x.0) : f32[b,width]
%sum.0 = reduce(%squares) {combine="sum", dims="0 1"} : f32[]
repeat i layers {
  @ forward block ${i+1}
  parameter %w.$i : f32[width,width] init normal(std=0.5)
  %m.$i = matmul(%x.$i, %w.$i) {rule="b w, w c -> b c"} : f32[b,width]
  %x.${i+1} = tanh(%m.$i) : f32[b,width]
}
@ forward block layers+1
repeat i layers {
  %q.$i = multiply(%x.${i+1}, %x.${i+1}) : f32[b,width]
  %l.$i = reduce(%q.$i) {combine="sum", dims="0 1"} : f32[]
  %sum.${i+1} = add(%sum.$i, %l.$i) : f32[]
}
%loss = affine(%sum.${layers}) {alpha=1.0} : f32[]
output %loss
)",
                  .samples = 10,
                  .micro_batch = 1,
                  .steps = 2};
    const ProgramOutcome want = train_program(c, 1);
    c.parallel.pipeline = 4;
    for (const std::string_view schedule : names_of_enum<ScheduleKind>) {
        c.parallel.schedule = schedule;
        INFO(schedule);
        const ProgramDifferences d = differences(train_program(c, 1), want);
        INFO(d.text());
        CHECK(d.most() < 1e-9);
    }
}

TEST_CASE("a program whose layers are a size")
{
    const std::string text = R"(graph layers
size b=4 layers=2
mesh x=1
input %x.0 : f32[b,3]
repeat i layers {
  @ forward block $i
  parameter %p.$i : f32[3,3] init normal(std=0.4)
  %x.${i+1} = matmul(%x.$i, %p.$i) {rule="b i, i o -> b o"} : f32[b,3]
}
%y = tanh(%x.${layers}) : f32[b,3]
%loss = reduce(%y) {combine="sum", dims="0 1"} : f32[]
output %loss
)";
    CHECK(train_program({.text = text, .sizes = {{{"layers", 3}}}}, 7).parameters.size() == 3);
    CHECK(train_program({.text = text}, 7).parameters.size() == 2);
}

// That of vit.graph counts valid samples, which differ between steps.
TEST_CASE("whether updates of a program wait for the norm changes no bit", "[release]")
{
    for (const auto& [axes, data, pipeline, zero, schedule] :
         {std::tuple(ProgramAxes{{{"x", 2}}}, 1, 2, 0, "1f1b"),
          {ProgramAxes{}, 2, 2, 1, "zb-h1"},
          {ProgramAxes{{{"y", 2}}}, 2, 1, 2, "1f1b"}})
        for (const bool varies : {false, true}) {
            ProgramCase c{.text = varies ? example_text("vit.graph") : fields, .micro_batch = 2, .steps = 5};
            if (varies) // has other axes
                c.sizes.list = {{"layers", 2}};
            else
                c.parallel.axes = axes;
            c.parallel.data = data;
            c.parallel.pipeline = pipeline;
            c.parallel.zero = data > 1 ? zero : 0;
            c.parallel.schedule = schedule;
            const ProgramOutcome want = train_program(c, 7);
            c.parallel.update = UpdateMode::post_validated;
            INFO(c.name << " " << describe_degrees(config_of(c).parallel) << ", " << schedule);
            CHECK(differences(train_program(c, 7), want).most() == 0);
        }
}

TEST_CASE("what a program computes does not depend on its mesh, blocks and default number of samples")
{
    const auto computes = [](const std::string& text) { return what_it_computes(text, "f", {}, 8); };
    const auto with = [](std::string text, const std::string& from, const std::string& to) {
        REQUIRE(text.find(from) != std::string::npos);
        return text.replace(text.find(from), from.size(), to);
    };
    for (const char* size : {"b=1", "b=32"})
        CHECK(computes(with(fields, "b=8", size)) == computes(fields));
    CHECK(computes(with(fields, "mesh x=2 y=2", "mesh x=1 y=4")) == computes(fields));
    CHECK(computes(with(fields, "block 3 head", "block 4 end")) == computes(fields));
    CHECK(computes(with(fields, "channels=3", "channels=4")) != computes(fields));
}

TEST_CASE("a parameter without gradient is refused")
{
    const std::string text = R"(graph spare
size b=4
mesh x=1
input %x : f32[b,3]
parameter %p : f32[3,3] init normal(std=0.4)
parameter %spare : f32[3,3] init normal(std=0.4)
%y = matmul(%x, %p) {rule="b i, i o -> b o"} : f32[b,3]
%loss = reduce(%y) {combine="sum", dims="0 1"} : f32[]
output %loss
)";
    CHECK_THROWS_AS(train_program({.text = text}, 7), UserError);
}
