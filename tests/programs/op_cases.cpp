#include "op_cases.hpp"

namespace trivium {

namespace {

void add_pointwise(std::vector<OpCase>& all)
{
    for (const char* op :
         {"negate", "abs", "sign", "exp", "expm1", "tanh", "sigmoid", "sin", "cos", "erf", "floor", "ceil"})
        all.push_back({op, {"%a : f64[7,8]"}, std::string("%y = ") + op + "(%a) : f64[7,8]\n", {"y"}});
    for (const char* op : {"log", "log1p", "sqrt", "rsqrt"})
        all.push_back({op,
                       {"%a : f64[7,8]"},
                       std::string("%b = multiply(%a, %a) : f64[7,8]\n%y = ") + op + "(%b) : f64[7,8]\n",
                       {"y"}});
    for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"})
        all.push_back({op,
                       {"%a : f64[6,9]", "%b : f64[6,9]"},
                       std::string("%y = ") + op + "(%a, %b) : f64[6,9]\n",
                       {"y"}});
    for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder",
                           "logical_and", "logical_or", "logical_xor"})
        all.push_back({std::string(op) + " i32",
                       {"%a : i32[8,5]", "%b : i32[8,5]"},
                       std::string("%y = ") + op + "(%a, %b) : i32[8,5]\n",
                       {"y"}});
    all.push_back({"power",
                   {"%a : f64[6,9]", "%b : f64[6,9]"},
                   "%c = exp(%a) : f64[6,9]\n%y = power(%c, %b) : f64[6,9]\n",
                   {"y"}});
    all.push_back({"logical_not", {"%a : i32[8,5]"}, "%y = logical_not(%a) : i32[8,5]\n", {"y"}});
    all.push_back({"compare",
                   {"%a : f64[6,9]", "%b : f64[6,9]"},
                   "%y = compare(%a, %b) {direction=\"lt\"} : i32[6,9]\n",
                   {"y"}});
    all.push_back({"select",
                   {"%p : i32[6,9]", "%a : f64[6,9]", "%b : f64[6,9]"},
                   "%y = select(%p, %a, %b) : f64[6,9]\n",
                   {"y"}});
    all.push_back({"cast", {"%a : f64[6,9]"}, "%y = cast(%a) {dtype=\"i32\"} : i32[6,9]\n", {"y"}});
}

void add_shapes(std::vector<OpCase>& all)
{
    for (const char* combine : {"sum", "max", "min", "product"}) {
        const std::string attribute = std::string("combine=\"") + combine + "\"";
        all.push_back({std::string("reduce ") + combine,
                       {"%a : f64[6,7,4]"},
                       "%y = reduce(%a) {" + attribute + ", dims=\"0 2\"} : f64[7]\n",
                       {"y"}});
        all.push_back({std::string("reduce i32 ") + combine,
                       {"%a : i32[8,6]"},
                       "%y = reduce(%a) {" + attribute + ", dims=\"1\"} : i32[8]\n",
                       {"y"}});
    }
    all.push_back({"reduce to scalar",
                   {"%a : f64[6,7]"},
                   "%y = reduce(%a) {combine=\"sum\", dims=\"0 1\"} : f64[]\n",
                   {"y"}});
    all.push_back({"broadcast",
                   {"%a : f64[6,7]"},
                   "%y = broadcast(%a) {dims=\"2 0\", shape=\"7 5 6\"} : f64[7,5,6]\n",
                   {"y"}});
    all.push_back({"broadcast one",
                   {"%a : f64[1,6]"},
                   "%y = broadcast(%a) {dims=\"0 1\", shape=\"8 6\"} : f64[8,6]\n",
                   {"y"}});
    all.push_back(
        {"transpose", {"%a : f64[6,7,4]"}, "%y = transpose(%a) {dims=\"2 0 1\"} : f64[4,6,7]\n", {"y"}});
    all.push_back(
        {"reshape split", {"%a : f64[24,3]"}, "%y = reshape(%a) {shape=\"4 6 3\"} : f64[4,6,3]\n", {"y"}});
    all.push_back(
        {"reshape merge", {"%a : f64[4,6,3]"}, "%y = reshape(%a) {shape=\"24 3\"} : f64[24,3]\n", {"y"}});
    all.push_back(
        {"reshape uneven", {"%a : f64[10,3]"}, "%y = reshape(%a) {shape=\"5 6\"} : f64[5,6]\n", {"y"}});
    all.push_back(
        {"reshape diverging", {"%a : f64[6,4]"}, "%y = reshape(%a) {shape=\"4 6\"} : f64[4,6]\n", {"y"}});
    all.push_back(
        {"reshape odd merge", {"%a : f64[5,2,3]"}, "%y = reshape(%a) {shape=\"10 3\"} : f64[10,3]\n", {"y"}});
    all.push_back(
        {"iota",
         {"%a : i32[6,8]"},
         "%n = iota() {dtype=\"i32\", dims=\"1\", shape=\"6 8\"} : i32[6,8]\n%y = add(%a, %n) : i32[6,8]\n",
         {"y"}});
    all.push_back({"constant",
                   {"%a : f64[6,8]"},
                   "%n = constant() {dtype=\"f64\", value=2.5, shape=\"6 8\"} : f64[6,8]\n%y = multiply(%a, "
                   "%n) : f64[6,8]\n",
                   {"y"}});
    all.push_back({"matmul",
                   {"%a : f64[6,8]", "%b : f64[8,5]"},
                   "%y = matmul(%a, %b) {rule=\"m k, k n -> m n\"} : f64[6,5]\n",
                   {"y"}});
    all.push_back({"batched matmul",
                   {"%a : f64[4,3,8]", "%b : f64[4,5,8]"},
                   "%y = matmul(%a, %b) {rule=\"b m k, b n k -> b m n\"} : f64[4,3,5]\n",
                   {"y"}});
    all.push_back({"mixed matmul",
                   {"%a : f64[3,4,2]", "%b : f64[2,3,5]"},
                   "%y = matmul(%a, %b) {rule=\"k m l, l k n -> n m\"} : f64[5,4]\n",
                   {"y"}});
    all.push_back({"matmul i32",
                   {"%a : i32[6,8]", "%b : i32[8,5]"},
                   "%y = matmul(%a, %b) {rule=\"m k, k n -> m n\"} : i32[6,5]\n",
                   {"y"}});
}

void add_windows(std::vector<OpCase>& all)
{
    all.push_back(
        {"slice", {"%a : f64[12,7]"}, "%y = slice(%a) {start=\"3 1\", limit=\"11 7\"} : f64[8,6]\n", {"y"}});
    all.push_back({"slice strided",
                   {"%a : f64[17,6]"},
                   "%y = slice(%a) {start=\"2 0\", limit=\"16 6\", stride=\"3 1\"} : f64[5,6]\n",
                   {"y"}});
    all.push_back({"pad",
                   {"%a : f64[9,6]"},
                   "%y = pad(%a) {value=1.5, low=\"2 0\", high=\"1 3\"} : f64[12,9]\n",
                   {"y"}});
    all.push_back({"pad negative",
                   {"%a : f64[12,6]"},
                   "%y = pad(%a) {value=0.0, low=\"-3 1\", high=\"4 -2\"} : f64[13,5]\n",
                   {"y"}});
    all.push_back({"pad interior",
                   {"%a : f64[6,5]"},
                   "%y = pad(%a) {value=-1.0, low=\"1 0\", high=\"-2 0\", interior=\"2 1\"} : f64[15,9]\n",
                   {"y"}});
    all.push_back({"pad far",
                   {"%a : f64[4,5]"},
                   "%y = pad(%a) {value=0.0, low=\"12 0\", high=\"0 0\"} : f64[16,5]\n",
                   {"y"}});
    all.push_back({"concatenate",
                   {"%a : f64[5,6]", "%b : f64[7,6]", "%c : f64[2,6]"},
                   "%y = concatenate(%a, %b, %c) {dims=\"0\"} : f64[14,6]\n",
                   {"y"}});
    all.push_back({"concatenate i32",
                   {"%a : i32[4,8]", "%b : i32[4,8]"},
                   "%y = concatenate(%a, %b) {dims=\"1\"} : i32[4,16]\n",
                   {"y"}});
    all.push_back({"reverse", {"%a : f64[9,8]"}, "%y = reverse(%a) {dims=\"0 1\"} : f64[9,8]\n", {"y"}});
    const std::string b = ", %w) ";
    all.push_back({"convolution 1d",
                   {"%a : f64[4,6,19]", "%w : f64[8,6,3]"},
                   "%y = convolution(%a" + b + "{stride=\"1\", low=\"1\", high=\"1\"} : f64[4,8,19]\n",
                   {"y"}});
    all.push_back({"convolution 2d",
                   {"%a : f64[2,4,13,8]", "%w : f64[6,4,3,2]"},
                   "%y = convolution(%a" + b +
                       "{stride=\"2 1\", low=\"1 0\", high=\"2 1\", dilation=\"2 1\"} : f64[2,6,6,8]\n",
                   {"y"}});
    all.push_back({"convolution groups",
                   {"%a : f64[2,8,12]", "%w : f64[12,2,3]"},
                   "%y = convolution(%a" + b + "{groups=4} : f64[2,12,10]\n",
                   {"y"}});
    all.push_back({"convolution base",
                   {"%a : f64[2,3,7]", "%w : f64[4,3,3]"},
                   "%y = convolution(%a" + b + "{low=\"1\", high=\"1\", base=\"2\"} : f64[2,4,13]\n",
                   {"y"}});
    all.push_back({"convolution 3d",
                   {"%a : f64[2,2,6,5,4]", "%w : f64[2,2,3,2,1]"},
                   "%y = convolution(%a" + b + "{low=\"1 0 0\", high=\"1 1 0\"} : f64[2,2,6,5,4]\n",
                   {"y"}});
    all.push_back({"convolution_grad_x",
                   {"%a : f64[2,6,6,8]", "%w : f64[6,4,3,2]"},
                   "%y = convolution_grad_x(%a" + b +
                       "{shape=\"2 4 13 8\", stride=\"2 1\", low=\"1 0\", high=\"2 1\", dilation=\"2 1\"} : "
                       "f64[2,4,13,8]\n",
                   {"y"}});
    all.push_back({"convolution_grad_w",
                   {"%a : f64[2,6,6,8]", "%x : f64[2,4,13,8]"},
                   "%y = convolution_grad_w(%a, %x) {shape=\"6 4 3 2\", stride=\"2 1\", low=\"1 0\", "
                   "high=\"2 1\", dilation=\"2 1\"} : f64[6,4,3,2]\n",
                   {"y"}});
    all.push_back({"convolution_grad_w groups",
                   {"%a : f64[4,12,10]", "%x : f64[4,8,12]"},
                   "%y = convolution_grad_w(%a, %x) {shape=\"12 2 3\", groups=4} : f64[12,2,3]\n",
                   {"y"}});
    for (const char* combine : {"sum", "max", "min", "product"})
        all.push_back(
            {std::string("pool ") + combine,
             {"%a : f64[4,14,9]"},
             std::string("%y = pool(%a) {combine=\"") + combine +
                 "\", window=\"1 3 2\", stride=\"1 2 1\", low=\"0 1 0\", high=\"0 2 1\"} : f64[4,8,9]\n",
             {"y"}});
    all.push_back({"pool dilated",
                   {"%a : f64[16,6]"},
                   "%y = pool(%a) {combine=\"sum\", window=\"3 1\", stride=\"1 1\", dilation=\"3 1\", "
                   "base=\"2 1\"} : f64[25,6]\n",
                   {"y"}});
    all.push_back({"pool_grad",
                   {"%d : f64[4,8,9]", "%a : f64[4,14,9]"},
                   "%y = pool_grad(%d, %a) {combine=\"max\", window=\"1 3 2\", stride=\"1 2 1\", low=\"0 1 "
                   "0\", high=\"0 2 1\"} : f64[4,14,9]\n",
                   {"y"}});
}

void add_indices(std::vector<OpCase>& all)
{
    const std::string scalars = "%s = constant() {dtype=\"i32\", value=2.0, shape=\"\"} : i32[]\n%t = "
                                "constant() {dtype=\"i32\", value=5.0, shape=\"\"} : i32[]\n";
    all.push_back({"dynamic_slice",
                   {"%a : f64[9,8]"},
                   scalars + "%y = dynamic_slice(%a, %s, %t) {shape=\"4 8\"} : f64[4,8]\n",
                   {"y"}});
    all.push_back({"dynamic_update_slice",
                   {"%a : f64[9,8]", "%u : f64[4,3]"},
                   scalars + "%y = dynamic_update_slice(%a, %u, %s, %t) : f64[9,8]\n",
                   {"y"}});
    all.push_back({"gather rows",
                   {"%a : f64[10,6]", "%i : i32[7]"},
                   "%y = gather(%a, %i) {offset_dims=\"1\", collapsed_dims=\"0\", index_map=\"0\", "
                   "index_dim=1, sizes=\"1 6\"} : f64[7,6]\n",
                   {"y"}});
    all.push_back({"gather windows",
                   {"%a : f64[10,8]", "%i : i32[6,2]"},
                   "%y = gather(%a, %i) {offset_dims=\"1 2\", index_map=\"0 1\", index_dim=1, sizes=\"3 8\"} "
                   ": f64[6,3,8]\n",
                   {"y"}});
    all.push_back({"gather batch",
                   {"%a : f64[4,10]", "%i : i32[4,6]"},
                   "%y = gather(%a, %i) {collapsed_dims=\"1\", batch_dims=\"0\", index_batch_dims=\"0\", "
                   "index_map=\"1\", index_dim=2, sizes=\"1 1\"} : f64[4,6]\n",
                   {"y"}});
    for (const char* combine : {"sum", "max", "product"})
        all.push_back(
            {std::string("scatter ") + combine,
             {"%a : f64[10,6]", "%i : i32[7]", "%u : f64[7,6]"},
             std::string("%y = scatter(%a, %i, %u) {combine=\"") + combine +
                 "\", offset_dims=\"1\", collapsed_dims=\"0\", index_map=\"0\", index_dim=1} : f64[10,6]\n",
             {"y"}});
    all.push_back({"scatter set",
                   {"%a : i32[10,6]", "%i : i32[7]", "%u : i32[7,6]"},
                   "%y = scatter(%a, %i, %u) {offset_dims=\"1\", collapsed_dims=\"0\", index_map=\"0\", "
                   "index_dim=1} : i32[10,6]\n",
                   {"y"}});
    all.push_back({"scatter windows",
                   {"%a : f64[12,8]", "%i : i32[5,1]", "%u : f64[5,3,8]"},
                   "%y = scatter(%a, %i, %u) {combine=\"sum\", offset_dims=\"1 2\", index_map=\"0\", "
                   "index_dim=1} : f64[12,8]\n",
                   {"y"}});
    all.push_back({"sort",
                   {"%a : f64[8,9]", "%b : i32[8,9]"},
                   "%y, %z = sort(%a, %b) {dims=\"1\"} : f64[8,9], i32[8,9]\n",
                   {"y", "z"}});
    all.push_back(
        {"sort ints", {"%a : i32[9,8]"}, "%y = sort(%a) {dims=\"0\", descending=1} : i32[9,8]\n", {"y"}});
    all.push_back(
        {"top_k", {"%a : f64[8,9]"}, "%y, %z = top_k(%a) {count=3} : f64[8,3], i32[8,3]\n", {"y", "z"}});
    all.push_back({"cumsum", {"%a : f64[8,9]"}, "%y = cumsum(%a) {dims=\"1\"} : f64[8,9]\n", {"y"}});
    all.push_back({"cumsum backwards",
                   {"%a : f64[8,9]"},
                   "%y = cumsum(%a) {dims=\"0\", backwards=1} : f64[8,9]\n",
                   {"y"}});
}

} // namespace

std::vector<OpCase> op_cases()
{
    std::vector<OpCase> all;
    add_pointwise(all);
    add_shapes(all);
    add_windows(all);
    add_indices(all);
    return all;
}

} // namespace trivium
