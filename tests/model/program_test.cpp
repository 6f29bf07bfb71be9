// Programs of the user's own: outputs with numbers per sample, and what is shown of them.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "model/program.hpp"
#include "model/sample_slice.hpp"

using namespace trivium;

namespace {

ModelProgram program_with(const std::string& outputs)
{
    return read_program("graph p\nsize b=4\nmesh x=1\ninput %x : f32[b,3,6]\ninput %y : f32[b,3,6]\n"
                        "input %z : f32[b]\nparameter %w : f32[3] init fill(value=1.0)\n"
                        "%ws = broadcast(%w) {dims=\"1\", shape=\"b 3 6\"} : f32[b,3,6]\n"
                        "%made = multiply(%x, %ws) : f32[b,3,6]\n"
                        "%short = reduce(%made) {combine=\"sum\", dims=\"2\"} : f32[b,3]\n"
                        "%each = reduce(%short) {combine=\"sum\", dims=\"1\"} : f32[b]\n"
                        "%loss = reduce(%each) {combine=\"sum\", dims=\"0\"} : f32[]\n"
                        "%sums = reduce(%made) {combine=\"sum\", dims=\"0\"} : f32[3,6]\noutput %loss\n" +
                            outputs,
                        "p.graph");
}

} // namespace

TEST_CASE("outputs with numbers per sample are shown, with the colours of the last input of their shape")
{
    const ModelProgram program = program_with("output %made\noutput %short\n");
    REQUIRE(program.shown.size() == 2);
    CHECK(program.shown[0] == ShownOutput{"made", "y"});
    CHECK(program.shown[1] == ShownOutput{"short", ""});
    CHECK(program.metrics.empty());
    CHECK(what_it_computes(program_with("%more = negate(%made) : f32[b,3,6]\noutput %more\n").text.get(),
                           "p.graph", {}, 4) == what_it_computes(program.text.get(), "p.graph", {}, 4));
    CHECK(what_it_computes(program.text.get(), "p.graph", {}, 4) ==
          what_it_computes(program_with("").text.get(), "p.graph", {},
                           4)); // a run may show more when it resumes
    for (const std::string wrong : {"each", "sums"}) {
        const std::string message = message_of<UserError>([&] { program_with("output %" + wrong + "\n"); });
        CHECK(has(message, "the output %" + wrong));
        CHECK(has(message, "b is its first dimension"));
    }
}

TEST_CASE("the shown slice is the middle of the last two dimensions, thinned")
{
    const auto check = [](const Shape& sample, const Shape& start, const Shape& stride, const Shape& shape,
                          const Shape& picture) {
        const SampleSlice slice = slice_of_sample(sample);
        CHECK(slice.start == start);
        CHECK(slice.stride == stride);
        CHECK(slice.shape == shape);
        CHECK(picture_shape(slice.shape) == picture);
    };
    check({5}, {0}, {1}, {5}, {5});
    check({1, 9, 5}, {0, 0, 0}, {1, 1, 1}, {1, 9, 5}, {9, 5});
    check({9, 5}, {0, 0}, {1, 1}, {9, 5}, {9, 5});
    check({3, 8, 9, 5}, {0, 4, 0, 0}, {1, 1, 1, 1}, {1, 1, 9, 5}, {9, 5});
    check({2, 7, 8, 128, 129}, {0, 3, 4, 0, 0}, {1, 1, 1, 1, 2}, {1, 1, 1, 128, 65}, {128, 65});
    check({4, 1, 1025}, {0, 0, 0}, {1, 1, 3}, {1, 1, 342}, {342});
}
