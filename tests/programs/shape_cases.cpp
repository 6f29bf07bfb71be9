#include "op_cases.hpp"

namespace trivium {

const char* const shape_cases = R"(
# reduce sum : f32 bf16 i32
%a : f64[6,7,4]
%y = reduce(%a) {combine="sum", dims="0 2"} : f64[7]
# reduce max : f32 bf16 i32
%a : f64[6,7,4]
%y = reduce(%a) {combine="max", dims="0 2"} : f64[7]
# reduce min : f32 bf16 i32
%a : f64[6,7,4]
%y = reduce(%a) {combine="min", dims="2 1"} : f64[6]
# reduce product
%a : f64[6,7,4]
%y = reduce(%a) {combine="product", dims="0 2"} : f64[7]
# reduce product first : f32 bf16 i32
%a : f64[3,8]
%y = reduce(%a) {combine="product", dims="0"} : f64[8]
# reduce sum last : f32 bf16 i32
%a : f64[8,5]
%y = reduce(%a) {combine="sum", dims="1"} : f64[8]
# reduce max first : f32 bf16 i32
%a : f64[9,6]
%y = reduce(%a) {combine="max", dims="0"} : f64[6]
# reduce to scalar : f32 i32
%a : f64[6,7]
%y = reduce(%a) {combine="sum", dims="0 1"} : f64[]
# reduce nothing
%a : f64[6,7]
%y = reduce(%a) {combine="sum", dims=""} : f64[6,7]
# reduce one
%a : f64[1,6]
%y = reduce(%a) {combine="sum", dims="0"} : f64[6]
# reduce less than ranks
%a : f64[3,2]
%y = reduce(%a) {combine="min", dims="1"} : f64[3]
# broadcast : f32 bf16 i32
%a : f64[6,7]
%y = broadcast(%a) {dims="2 0", shape="7 5 6"} : f64[7,5,6]
# broadcast one : f32 bf16 i32
%a : f64[1,6]
%y = broadcast(%a) {dims="0 1", shape="8 6"} : f64[8,6]
# broadcast scalar
%a : f64[]
%y = broadcast(%a) {dims="", shape="5 8"} : f64[5,8]
# transpose : f32 bf16 i32
%a : f64[6,7,4]
%y = transpose(%a) {dims="2 0 1"} : f64[4,6,7]
# transpose small
%a : f64[1,3]
%y = transpose(%a) {dims="1 0"} : f64[3,1]
# reshape split : f32 bf16 i32
%a : f64[24,3]
%y = reshape(%a) {shape="4 6 3"} : f64[4,6,3]
# reshape merge : f32 bf16 i32
%a : f64[4,6,3]
%y = reshape(%a) {shape="24 3"} : f64[24,3]
# reshape uneven
%a : f64[10,3]
%y = reshape(%a) {shape="5 6"} : f64[5,6]
# reshape diverging
%a : f64[6,4]
%y = reshape(%a) {shape="4 6"} : f64[4,6]
# reshape odd merge
%a : f64[5,2,3]
%y = reshape(%a) {shape="10 3"} : f64[10,3]
# reshape split in three
%a : f64[24]
%y = reshape(%a) {shape="2 3 4"} : f64[2,3,4]
# reshape merge and split : i32
%a : f64[3,8,2]
%y = reshape(%a) {shape="12 2 2"} : f64[12,2,2]
# reshape to ones
%a : f64[8]
%y = reshape(%a) {shape="1 8 1"} : f64[1,8,1]
# reshape from ones
%a : f64[1,7,1]
%y = reshape(%a) {shape="7"} : f64[7]
# reshape to scalar
%a : f64[1]
%y = reshape(%a) {shape=""} : f64[]
# iota
%a : i32[6,8]
%n = iota() {dtype="i32", dims="1", shape="6 8"} : i32[6,8]
%y = add(%a, %n) : i32[6,8]
# iota rows : f32 bf16
%a : f64[7,3]
%n = iota() {dtype="f64", dims="0", shape="7 3"} : f64[7,3]
%y = multiply(%a, %n) : f64[7,3]
# iota alone : f32 bf16 i32
%y = iota() {dtype="f64", dims="0", shape="9 4"} : f64[9,4]
# constant : f32 bf16 i32
%a : f64[6,8]
%n = constant() {dtype="f64", value=2.0, shape="6 8"} : f64[6,8]
%y = multiply(%a, %n) : f64[6,8]
# constant alone
%y = constant() {dtype="f64", value=0.3, shape="5 6"} : f64[5,6]
# matmul : f32 bf16 i32
%a : f64[6,8]
%b : f64[8,5]
%y = matmul(%a, %b) {rule="m k, k n -> m n"} : f64[6,5]
# matmul transposed
%a : f64[7,4]
%b : f64[6,7]
%y = matmul(%a, %b) {rule="k m, n k -> n m"} : f64[6,4]
# batched matmul : f32 bf16
%a : f64[4,3,8]
%b : f64[4,5,8]
%y = matmul(%a, %b) {rule="b m k, b n k -> b m n"} : f64[4,3,5]
# mixed matmul : i32
%a : f64[3,4,2]
%b : f64[2,3,5]
%y = matmul(%a, %b) {rule="k m l, l k n -> n m"} : f64[5,4]
# outer product
%a : f64[6]
%b : f64[5]
%y = matmul(%a, %b) {rule="m, n -> m n"} : f64[6,5]
# dot
%a : f64[9]
%b : f64[9]
%y = matmul(%a, %b) {rule="k, k -> ."} : f64[]
# matmul small
%a : f64[2,3]
%b : f64[3,1]
%y = matmul(%a, %b) {rule="m k, k n -> m n"} : f64[2,1]
)";

const char* const index_cases = R"(
# dynamic_slice : f32 bf16 i32
%a : f64[9,8]
%s : i32[]
%t : i32[]
%y = dynamic_slice(%a, %s, %t) {shape="4 8"} : f64[4,8]
# dynamic_slice before the begin
%a : f64[9,8]
%s = constant() {dtype="i32", value=-2.0, shape=""} : i32[]
%t = constant() {dtype="i32", value=3.0, shape=""} : i32[]
%y = dynamic_slice(%a, %s, %t) {shape="9 4"} : f64[9,4]
# dynamic_slice of one
%a : f64[7,5]
%s : i32[]
%t : i32[]
%y = dynamic_slice(%a, %s, %t) {shape="1 1"} : f64[1,1]
# dynamic_update_slice : f32 bf16 i32
%a : f64[9,8]
%u : f64[4,3]
%s : i32[]
%t : i32[]
%y = dynamic_update_slice(%a, %u, %s, %t) : f64[9,8]
# dynamic_update_slice rows
%a : f64[10,4]
%u : f64[3,4]
%s : i32[]
%t : i32[]
%y = dynamic_update_slice(%a, %u, %s, %t) : f64[10,4]
# dynamic_update_slice all
%a : f64[5,6]
%u : f64[5,6]
%s : i32[]
%t : i32[]
%y = dynamic_update_slice(%a, %u, %s, %t) : f64[5,6]
# gather rows : f32 bf16 i32
%a : f64[10,6]
%i : i32[7]
%y = gather(%a, %i) {offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1, sizes="1 6"} : f64[7,6]
# gather windows
%a : f64[10,8]
%i : i32[6,2]
%y = gather(%a, %i) {offset_dims="1 2", index_map="0 1", index_dim=1, sizes="3 8"} : f64[6,3,8]
# gather batch : f32 bf16 i32
%a : f64[4,10]
%i : i32[4,6]
%y = gather(%a, %i) {collapsed_dims="1", batch_dims="0", index_batch_dims="0", index_map="1", index_dim=2, sizes="1 1"} : f64[4,6]
# gather two batches
%a : f64[3,7,4,2]
%i : i32[4,5,3]
%y = gather(%a, %i) {offset_dims="3", collapsed_dims="1", batch_dims="0 2", index_batch_dims="2 0", index_map="1", index_dim=3, sizes="1 1 1 2"} : f64[4,5,3,2]
# gather index first
%a : f64[6,9]
%i : i32[2,5]
%y = gather(%a, %i) {offset_dims="0", collapsed_dims="0", index_map="1 0", index_dim=0, sizes="1 3"} : f64[3,5]
# gather unclamped
%a : f64[8,5]
%j : i32[6]
%n = constant() {dtype="i32", value=4.0, shape="6"} : i32[6]
%i = add(%j, %n) : i32[6]
%y = gather(%a, %i) {offset_dims="1 2", index_map="0", index_dim=1, sizes="2 5", clamp=0} : f64[6,2,5]
# gather beyond
%a : f64[8,5]
%j : i32[6]
%n = constant() {dtype="i32", value=4.0, shape="6"} : i32[6]
%i = add(%j, %n) : i32[6]
%y = gather(%a, %i) {offset_dims="1 2", index_map="0", index_dim=1, sizes="2 5"} : f64[6,2,5]
# gather one
%a : f64[9,4]
%i : i32[1]
%y = gather(%a, %i) {offset_dims="0", collapsed_dims="0", index_map="0", index_dim=0, sizes="1 4"} : f64[4]
# scatter sum : f32 bf16 i32
%a : f64[10,6]
%i : i32[7]
%u : f64[7,6]
%y = scatter(%a, %i, %u) {combine="sum", offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1} : f64[10,6]
# scatter max : f32 bf16 i32
%a : f64[10,6]
%i : i32[7]
%u : f64[7,6]
%y = scatter(%a, %i, %u) {combine="max", offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1} : f64[10,6]
# scatter min
%a : f64[5,6]
%i : i32[8]
%u : f64[8,6]
%y = scatter(%a, %i, %u) {combine="min", offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1} : f64[5,6]
# scatter product
%a : f64[10,6]
%i : i32[7]
%u : f64[7,6]
%y = scatter(%a, %i, %u) {combine="product", offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1} : f64[10,6]
# scatter set : f32 bf16 i32
%a : f64[10,6]
%i : i32[7]
%u : f64[7,6]
%y = scatter(%a, %i, %u) {offset_dims="1", collapsed_dims="0", index_map="0", index_dim=1} : f64[10,6]
# scatter windows
%a : f64[12,8]
%i : i32[5,1]
%u : f64[5,3,8]
%y = scatter(%a, %i, %u) {combine="sum", offset_dims="1 2", index_map="0", index_dim=1} : f64[12,8]
# scatter windows past the end
%a : f64[9,4]
%j : i32[5,1]
%n = constant() {dtype="i32", value=2.0, shape="5 1"} : i32[5,1]
%i = add(%j, %n) : i32[5,1]
%u : f64[5,3,4]
%y = scatter(%a, %i, %u) {combine="sum", offset_dims="1 2", index_map="0", index_dim=1} : f64[9,4]
# scatter clamped
%a : f64[9,4]
%j : i32[5,1]
%n = constant() {dtype="i32", value=2.0, shape="5 1"} : i32[5,1]
%i = add(%j, %n) : i32[5,1]
%u : f64[5,3,4]
%y = scatter(%a, %i, %u) {combine="sum", offset_dims="1 2", index_map="0", index_dim=1, clamp=1} : f64[9,4]
# scatter batch : i32
%a : f64[4,10]
%i : i32[4,6]
%u : f64[4,6]
%y = scatter(%a, %i, %u) {combine="sum", collapsed_dims="1", batch_dims="0", index_batch_dims="0", index_map="1", index_dim=2} : f64[4,10]
# sort : f32 bf16
%a : f64[8,9]
%b : i32[8,9]
%y, %z = sort(%a, %b) {dims="1"} : f64[8,9], i32[8,9]
# sort equal keys
%k : i32[9,4]
%a : f64[9,4]
%b : i32[9,4]
%x, %y, %z = sort(%k, %a, %b) {dims="0"} : i32[9,4], f64[9,4], i32[9,4]
# sort descending : f32 bf16 i32
%a : f64[9,8]
%b : f64[9,8]
%y, %z = sort(%a, %b) {dims="0", descending=1} : f64[9,8], f64[9,8]
# sort the middle
%a : f64[3,7,4]
%y = sort(%a) {dims="1"} : f64[3,7,4]
# top_k : f32 bf16 i32
%a : f64[8,9]
%y, %z = top_k(%a) {count=3} : f64[8,3], i32[8,3]
# top_k one
%a : f64[2,3,7]
%y, %z = top_k(%a) {count=1} : f64[2,3,1], i32[2,3,1]
# top_k all
%a : f64[6]
%y, %z = top_k(%a) {count=6} : f64[6], i32[6]
# cumsum : f32 bf16 i32
%a : f64[8,9]
%y = cumsum(%a) {dims="1"} : f64[8,9]
# cumsum backwards
%a : f64[8,9]
%y = cumsum(%a) {dims="0", backwards=1} : f64[8,9]
# cumsum the middle
%a : f64[3,5,4]
%y = cumsum(%a) {dims="1"} : f64[3,5,4]
)";

} // namespace trivium
