#include "op_cases.hpp"

namespace trivium {

const char* const expert_cases = R"(
# router
%l : f64[4,6,8]
%bias : f64[8]
%w, %e = route(%l, %bias) {routing="1 1 4 2 1", scale=1.5, k=3} : f64[4,6,3], i32[4,6,3]
# gradient of a router
%l : f64[4,6,8]
%dw : f64[4,6,3]
%w, %e = route(%l) {routing="0 1 1 1 0", k=3} : f64[4,6,3], i32[4,6,3]
%y = route_grad(%dw, %l, %e) {routing="0 1 1 1 0"} : f64[4,6,8]
# counts of a router
%l : f64[4,6,8]
%w, %e = route(%l) {routing="0 0 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%y = expert_counts(%e) {rule="b s k -> x | k x", dtype="f64", x=8} : f64[8]
# counts of a router for each sequence
%l : f64[4,6,8]
%w, %e = route(%l) {routing="0 0 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%y = expert_counts(%e) {rule="b s k -> b x | k x", dtype="f64", x=8} : f64[4,8]
# scores of a router
%l : f64[4,6,8]
%y = router_scores(%l) {routing="1 0 1 1 0"} : f64[4,8]
# gradient of the scores of a router
%l : f64[4,6,8]
%d : f64[4,8]
%y = router_scores_grad(%d, %l) {routing="0 0 1 1 0"} : f64[4,6,8]
# squares of a router
%l : f64[4,6,8]
%y = router_squares(%l) : f64[4]
# gradient of the squares of a router
%l : f64[4,6,8]
%d : f64[4]
%y = router_squares_grad(%d, %l) : f64[4,6,8]
# tokens as rows
%t : f64[4,6,8]
%l : f64[4,6,4]
%w, %e = route(%l) {routing="0 0 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%y, %s, %c = dispatch(%t, %e) {spread="2 3", count=4} : f64[6,8,8], i32[4,6,2], i32[6,4]
# tokens as rows, some without place
%t : f64[4,6,8]
%l : f64[4,6,4]
%w, %e = route(%l) {routing="0 0 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%y, %s, %c = dispatch(%t, %e) {spread="4 1", count=4, capacity=2} : f64[4,12,8], i32[4,6,2], i32[4,4]
# rows of experts, from tokens to tokens
%t : f64[4,6,8]
%l : f64[4,6,4]
%up : f64[4,8,12]
%bias : f64[4,12]
%down : f64[4,12,8]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="4 1", count=4} : f64[4,12,8], i32[4,6,2], i32[4,4]
%h = grouped_matmul(%r, %up, %c) {groups=1, expected=12} : f64[4,12,12]
%b = grouped_bias(%h, %bias, %c) {groups=1} : f64[4,12,12]
%a = gelu(%b) : f64[4,12,12]
%o = grouped_matmul(%a, %down, %c) {groups=1, expected=12} : f64[4,12,8]
%y = combine(%o, %s, %w) {spread="4 1"} : f64[4,6,8]
# gradients of rows of experts
%t : f64[4,6,8]
%dy : f64[4,6,8]
%l : f64[4,6,4]
%up : f64[4,8,12]
%down : f64[4,12,8]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="2 2", count=4} : f64[4,12,8], i32[4,6,2], i32[4,4]
%h = grouped_matmul(%r, %up, %c) {groups=1} : f64[4,12,12]
%o = grouped_matmul(%h, %down, %c) {groups=1} : f64[4,12,8]
%do = combine_grad_rows(%dy, %s, %w) {spread="2 2"} : f64[4,12,8]
%dh = grouped_matmul_grad_rows(%do, %down, %c) {groups=1} : f64[4,12,12]
%dr = grouped_matmul_grad_rows(%dh, %up, %c) {groups=1} : f64[4,12,8]
%y = combine(%dr, %s) {spread="2 2"} : f64[4,6,8]
# gradients of the weights of slots
%t : f64[4,6,8]
%dy : f64[4,6,8]
%l : f64[4,6,4]
%up : f64[4,8,8]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="2 1", count=4} : f64[2,24,8], i32[4,6,2], i32[2,4]
%o = grouped_matmul(%r, %up, %c) {groups=1} : f64[2,24,8]
%y = combine_grad_weights(%dy, %s, %o) {spread="2 1"} : f64[4,6,2]
# gradients of matrices of experts
%t : f64[4,6,8]
%u : f64[4,6,4]
%l : f64[4,6,4]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="4 1", count=4} : f64[4,12,8], i32[4,6,2], i32[4,4]
%d, %s2, %c2 = dispatch(%u, %e) {spread="4 1", count=4} : f64[4,12,4], i32[4,6,2], i32[4,4]
%y = grouped_matmul_grad_weight(%r, %d, %c) {groups=2, count=4} : f64[4,8,4]
# gradients of biases of experts
%t : f64[4,6,8]
%l : f64[4,6,4]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="4 1", count=4} : f64[4,12,8], i32[4,6,2], i32[4,4]
%y = grouped_bias_grad(%r, %c) {groups=2, count=4} : f64[4,8]
# rows at experts of several ranks
%t : f64[4,6,8]
%l : f64[4,6,4]
%up : f64[4,8,12]
%bias : f64[4,12]
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[4,6,2], i32[4,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="2 2", count=4} : f64[4,12,8], i32[4,6,2], i32[4,4]
%h = grouped_matmul(%r, %up, %c) {groups=2} : f64[4,12,12]
%y = grouped_bias(%h, %bias, %c) {groups=2} : f64[4,12,12]
)";

} // namespace trivium
