#include "op_cases.hpp"

namespace trivium {

const char* const window_cases = R"(
# slice : f32 bf16 i32
%a : f64[12,7]
%y = slice(%a) {start="3 1", limit="11 7"} : f64[8,6]
# slice strided : f32 bf16 i32
%a : f64[17,6]
%y = slice(%a) {start="2 0", limit="16 6", stride="3 1"} : f64[5,6]
# slice few
%a : f64[16,3]
%y = slice(%a) {start="5 1", limit="7 2"} : f64[2,1]
# slice far apart
%a : f64[15,4]
%y = slice(%a) {start="1 0", limit="15 3", stride="13 2"} : f64[2,2]
# slice of one
%a : f64[1,8]
%y = slice(%a) {start="0 6", limit="1 8"} : f64[1,2]
# pad : f32 bf16 i32
%a : f64[9,6]
%y = pad(%a) {value=2.0, low="2 0", high="1 3"} : f64[12,9]
# pad negative : f32 bf16 i32
%a : f64[12,6]
%y = pad(%a) {value=0.0, low="-3 1", high="4 -2"} : f64[13,5]
# pad interior : f32 bf16 i32
%a : f64[6,5]
%y = pad(%a) {value=-1.0, low="1 0", high="-2 0", interior="2 1"} : f64[15,9]
# pad far
%a : f64[4,5]
%y = pad(%a) {value=0.25, low="12 0", high="0 0"} : f64[16,5]
# pad to none of it
%a : f64[4,5]
%y = pad(%a) {value=0.25, low="-4 0", high="7 0"} : f64[7,5]
# pad interior negative
%a : f64[7,3]
%y = pad(%a) {value=0.5, low="-2 -1", high="-3 2", interior="1 3"} : f64[8,10]
# pad one
%a : f64[1,2]
%y = pad(%a) {value=0.5, low="3 0", high="4 1", interior="0 2"} : f64[8,5]
# concatenate : f32 bf16
%a : f64[5,6]
%b : f64[7,6]
%c : f64[2,6]
%y = concatenate(%a, %b, %c) {dims="0"} : f64[14,6]
# concatenate columns : f32 i32
%a : f64[4,8]
%b : f64[4,8]
%y = concatenate(%a, %b) {dims="1"} : f64[4,16]
# concatenate ones
%a : f64[2,1,3]
%b : f64[2,1,3]
%y = concatenate(%a, %b) {dims="1"} : f64[2,2,3]
# concatenate one
%a : f64[7,4]
%y = concatenate(%a) {dims="0"} : f64[7,4]
# concatenate a little
%a : f64[1,4]
%b : f64[13,4]
%y = concatenate(%a, %b) {dims="0"} : f64[14,4]
# reverse : f32 bf16 i32
%a : f64[9,8]
%y = reverse(%a) {dims="0 1"} : f64[9,8]
# reverse one dim
%a : f64[2,7,3]
%y = reverse(%a) {dims="1"} : f64[2,7,3]
# reverse nothing
%a : f64[3,5]
%y = reverse(%a) {dims=""} : f64[3,5]
# pool sum 1d : f32 bf16 i32
%a : f64[4,14,9]
%y = pool(%a) {combine="sum", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,8,9]
# pool max 1d : f32 bf16 i32
%a : f64[4,14,9]
%y = pool(%a) {combine="max", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,8,9]
# pool_grad max 1d : f32 bf16 i32
%d : f64[4,8,9]
%a : f64[4,14,9]
%y = pool_grad(%d, %a) {combine="max", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,14,9]
# pool min 1d : f32 bf16 i32
%a : f64[4,14,9]
%y = pool(%a) {combine="min", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,8,9]
# pool_grad min 1d : f32 bf16 i32
%d : f64[4,8,9]
%a : f64[4,14,9]
%y = pool_grad(%d, %a) {combine="min", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,14,9]
# pool product 1d : i32
%a : f64[4,14,9]
%y = pool(%a) {combine="product", window="1 3 2", stride="1 2 1", low="0 1 0", high="0 2 1"} : f64[4,8,9]
# pool sum dilated
%a : f64[16,6]
%y = pool(%a) {combine="sum", window="3 1", dilation="3 1", base="2 1"} : f64[25,6]
# pool max 2d
%a : f64[2,11,8]
%y = pool(%a) {combine="max", window="1 3 3", stride="1 2 3", low="0 1 1", high="0 1 1"} : f64[2,6,3]
# pool_grad max 2d
%d : f64[2,6,3]
%a : f64[2,11,8]
%y = pool_grad(%d, %a) {combine="max", window="1 3 3", stride="1 2 3", low="0 1 1", high="0 1 1"} : f64[2,11,8]
# pool sum 3d
%a : f64[2,7,4,5]
%y = pool(%a) {combine="sum", window="1 3 2 2", stride="1 2 1 2", low="0 1 0 1", high="0 1 1 0"} : f64[2,4,4,3]
# pool max strided past the window
%a : f64[19,3]
%y = pool(%a) {combine="max", window="2 1", stride="5 1", low="1 0"} : f64[4,3]
# pool_grad max strided past the window
%d : f64[4,3]
%a : f64[19,3]
%y = pool_grad(%d, %a) {combine="max", window="2 1", stride="5 1", low="1 0"} : f64[19,3]
# pool max wider than a shard
%a : f64[16,5]
%y = pool(%a) {combine="max", window="9 1", low="4 0", high="4 0"} : f64[16,5]
# pool_grad max wider than a shard
%d : f64[16,5]
%a : f64[16,5]
%y = pool_grad(%d, %a) {combine="max", window="9 1", low="4 0", high="4 0"} : f64[16,5]
# pool sum wider than a shard
%a : f64[16,5]
%y = pool(%a) {combine="sum", window="11 1", low="10 0"} : f64[16,5]
# pool max dilated base
%a : f64[9,4]
%y = pool(%a) {combine="max", window="3 1", stride="2 1", low="2 0", high="1 0", dilation="2 1", base="3 1"} : f64[12,4]
# pool_grad max dilated base
%d : f64[12,4]
%a : f64[9,4]
%y = pool_grad(%d, %a) {combine="max", window="3 1", stride="2 1", low="2 0", high="1 0", dilation="2 1", base="3 1"} : f64[9,4]
# pool max to one
%a : f64[8,3]
%y = pool(%a) {combine="max", window="8 3"} : f64[1,1]
# pool min below the ranks
%a : f64[3,2]
%y = pool(%a) {combine="min", window="2 1", low="1 0"} : f64[3,2]
)";

const char* const convolution_cases = R"(
# convolution 1d : f32 bf16 i32
%a : f64[4,6,19]
%w : f64[8,6,3]
%y = convolution(%a, %w) {stride="1", low="1", high="1"} : f64[4,8,19]
# convolution_grad_x 1d : f32 bf16 i32
%d : f64[4,8,19]
%w : f64[8,6,3]
%y = convolution_grad_x(%d, %w) {shape="4 6 19", stride="1", low="1", high="1"} : f64[4,6,19]
# convolution_grad_w 1d : f32 bf16 i32
%d : f64[4,8,19]
%x : f64[4,6,19]
%y = convolution_grad_w(%d, %x) {shape="8 6 3", stride="1", low="1", high="1"} : f64[8,6,3]
# convolution_grad_w by input 1d : f32 bf16 i32
%d : f64[4,8,19]
%x : f64[4,6,19]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="8 6 3", stride="1", low="1", high="1"} : f64[8,6,3]
# convolution 2d : f32 bf16
%a : f64[2,4,13,8]
%w : f64[6,4,3,2]
%y = convolution(%a, %w) {stride="2 1", low="1 0", high="2 1", dilation="2 1"} : f64[2,6,6,8]
# convolution_grad_x 2d : f32 bf16
%d : f64[2,6,6,8]
%w : f64[6,4,3,2]
%y = convolution_grad_x(%d, %w) {shape="2 4 13 8", stride="2 1", low="1 0", high="2 1", dilation="2 1"} : f64[2,4,13,8]
# convolution_grad_w 2d : f32 bf16
%d : f64[2,6,6,8]
%x : f64[2,4,13,8]
%y = convolution_grad_w(%d, %x) {shape="6 4 3 2", stride="2 1", low="1 0", high="2 1", dilation="2 1"} : f64[6,4,3,2]
# convolution_grad_w by input 2d : f32 bf16
%d : f64[2,6,6,8]
%x : f64[2,4,13,8]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="6 4 3 2", stride="2 1", low="1 0", high="2 1", dilation="2 1"} : f64[6,4,3,2]
# convolution groups : f32
%a : f64[2,8,12]
%w : f64[12,2,3]
%y = convolution(%a, %w) {groups=4} : f64[2,12,10]
# convolution_grad_x groups : f32
%d : f64[2,12,10]
%w : f64[12,2,3]
%y = convolution_grad_x(%d, %w) {shape="2 8 12", groups=4} : f64[2,8,12]
# convolution_grad_w groups : f32
%d : f64[2,12,10]
%x : f64[2,8,12]
%y = convolution_grad_w(%d, %x) {shape="12 2 3", groups=4} : f64[12,2,3]
# convolution_grad_w by input groups : f32
%d : f64[2,12,10]
%x : f64[2,8,12]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="12 2 3", groups=4} : f64[12,2,3]
# convolution base
%a : f64[2,3,7]
%w : f64[4,3,3]
%y = convolution(%a, %w) {low="1", high="1", base="2"} : f64[2,4,13]
# convolution_grad_x base
%d : f64[2,4,13]
%w : f64[4,3,3]
%y = convolution_grad_x(%d, %w) {shape="2 3 7", low="1", high="1", base="2"} : f64[2,3,7]
# convolution_grad_w base
%d : f64[2,4,13]
%x : f64[2,3,7]
%y = convolution_grad_w(%d, %x) {shape="4 3 3", low="1", high="1", base="2"} : f64[4,3,3]
# convolution_grad_w by input base
%d : f64[2,4,13]
%x : f64[2,3,7]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="4 3 3", low="1", high="1", base="2"} : f64[4,3,3]
# convolution 3d : f32
%a : f64[2,2,6,5,4]
%w : f64[2,2,3,2,1]
%y = convolution(%a, %w) {low="1 0 0", high="1 1 0"} : f64[2,2,6,5,4]
# convolution_grad_x 3d : f32
%d : f64[2,2,6,5,4]
%w : f64[2,2,3,2,1]
%y = convolution_grad_x(%d, %w) {shape="2 2 6 5 4", low="1 0 0", high="1 1 0"} : f64[2,2,6,5,4]
# convolution_grad_w 3d : f32
%d : f64[2,2,6,5,4]
%x : f64[2,2,6,5,4]
%y = convolution_grad_w(%d, %x) {shape="2 2 3 2 1", low="1 0 0", high="1 1 0"} : f64[2,2,3,2,1]
# convolution_grad_w by input 3d : f32
%d : f64[2,2,6,5,4]
%x : f64[2,2,6,5,4]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="2 2 3 2 1", low="1 0 0", high="1 1 0"} : f64[2,2,3,2,1]
# convolution far
%a : f64[2,2,16]
%w : f64[3,2,11]
%y = convolution(%a, %w) {low="3", high="4"} : f64[2,3,13]
# convolution_grad_x far
%d : f64[2,3,13]
%w : f64[3,2,11]
%y = convolution_grad_x(%d, %w) {shape="2 2 16", low="3", high="4"} : f64[2,2,16]
# convolution_grad_w far
%d : f64[2,3,13]
%x : f64[2,2,16]
%y = convolution_grad_w(%d, %x) {shape="3 2 11", low="3", high="4"} : f64[3,2,11]
# convolution_grad_w by input far
%d : f64[2,3,13]
%x : f64[2,2,16]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="3 2 11", low="3", high="4"} : f64[3,2,11]
# convolution strided past the window
%a : f64[3,2,23]
%w : f64[2,2,2]
%y = convolution(%a, %w) {stride="5", low="1"} : f64[3,2,5]
# convolution_grad_x strided past the window
%d : f64[3,2,5]
%w : f64[2,2,2]
%y = convolution_grad_x(%d, %w) {shape="3 2 23", stride="5", low="1"} : f64[3,2,23]
# convolution_grad_w strided past the window
%d : f64[3,2,5]
%x : f64[3,2,23]
%y = convolution_grad_w(%d, %x) {shape="2 2 2", stride="5", low="1"} : f64[2,2,2]
# convolution_grad_w by input strided past the window
%d : f64[3,2,5]
%x : f64[3,2,23]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="2 2 2", stride="5", low="1"} : f64[2,2,2]
# convolution depthwise strided
%a : f64[2,6,9,7]
%w : f64[6,1,3,3]
%y = convolution(%a, %w) {stride="2 2", low="1 1", high="1 1", groups=6} : f64[2,6,5,4]
# convolution_grad_x depthwise strided
%d : f64[2,6,5,4]
%w : f64[6,1,3,3]
%y = convolution_grad_x(%d, %w) {shape="2 6 9 7", stride="2 2", low="1 1", high="1 1", groups=6} : f64[2,6,9,7]
# convolution_grad_w depthwise strided
%d : f64[2,6,5,4]
%x : f64[2,6,9,7]
%y = convolution_grad_w(%d, %x) {shape="6 1 3 3", stride="2 2", low="1 1", high="1 1", groups=6} : f64[6,1,3,3]
# convolution_grad_w by input depthwise strided
%d : f64[2,6,5,4]
%x : f64[2,6,9,7]
%y = convolution_grad_w(%d, %x) {by_input=1, shape="6 1 3 3", stride="2 2", low="1 1", high="1 1", groups=6} : f64[6,1,3,3]
# convolution of one window
%a : f64[2,4,8]
%w : f64[3,4,8]
%y = convolution(%a, %w) : f64[2,3,1]
# convolution of extents below the ranks
%a : f64[1,2,3]
%w : f64[1,2,2]
%y = convolution(%a, %w) {low="1"} : f64[1,1,3]
# convolution base strided
%a : f64[2,2,6,5]
%w : f64[2,2,3,2]
%y = convolution(%a, %w) {stride="3 2", low="2 1", high="1 2", dilation="1 2", base="2 3"} : f64[2,2,4,7]
# convolution cut
%a : f64[2,3,14]
%w : f64[4,3,3]
%y = convolution(%a, %w) {low="-2", high="-3"} : f64[2,4,7]
)";

} // namespace trivium
