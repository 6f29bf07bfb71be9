// What a library must compute on the host; the teams have only the plain kernels.
#include "kernels/general/convolution.hpp"

#include "catch.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("oneDNN computes the usual convolutions in f32, and none in f64")
{
    ConvShape shape{.spatial = 2, .b = 17, .c = 12, .o = 24};
    for (int d = 0; d < 2; ++d) {
        shape.in[d] = 16;
        shape.k[d] = 3;
        shape.low[d] = 1;
        shape.stride[d] = 2;
        shape.out[d] = 8;
    }
    for (const i64 groups : {1, 4, 12})
        for (const ConvKind kind : {ConvKind::forward, ConvKind::grad_x, ConvKind::grad_w}) {
            shape.groups = groups;
            INFO("kind " << static_cast<int>(kind) << ", " << groups << " groups");
            CHECK(Convolution(kind, shape, DType::f32, 2).by_library());
            CHECK_FALSE(Convolution(kind, shape, DType::f64, 2).by_library());
        }
}
