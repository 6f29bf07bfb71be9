// A program of the user's own has the same losses, parameters and moments on every grid as on one rank.
#include "catch.hpp"
#include "grid/programs.hpp"

#include "base/check.hpp"

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

} // namespace

TEST_CASE("a classifier")
{
    ProgramCase one{.text = classifier};
    const ProgramOutcome want = train_program(one, 7);
    for (const ProgramAxes& axes :
         {ProgramAxes{{{"x", 2}}}, ProgramAxes{{{"y", 2}}}, ProgramAxes{{{"x", 2}, {"y", 2}}}})
        for (const i64 data : {1, 2})
            for (const i64 zero : {0, 1, 2, 3}) {
                ProgramCase c = one;
                c.parallel.axes = axes;
                c.parallel.data = data;
                c.parallel.zero = zero;
                c.micro_batch = 1;
                const ProgramDifferences d = differences(train_program(c, 7), want);
                INFO(describe_degrees(config_of(c).parallel) << " zero " << zero << ": " << d.text());
                CHECK(d.most() < 1e-9);
            }
}
