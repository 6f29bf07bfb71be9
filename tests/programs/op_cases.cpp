#include "op_cases.hpp"

#include "base/check.hpp"

#include <sstream>

namespace trivium {

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to)
{
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

/// The names before the "=" of a line.
std::vector<std::string> results_of(const std::string& line)
{
    std::vector<std::string> names;
    std::istringstream words(line.substr(0, line.find('=')));
    for (std::string word; words >> word;)
        names.push_back(word.substr(1, word.find(',') - 1));
    return names;
}

/// Whole numbers are added exactly in any order, even in bf16 if there are few.
void round_inputs(OpCase& c, std::string_view type)
{
    std::string lines;
    for (std::string& input : c.inputs)
        if (const std::size_t colon = input.find(" : "); input.compare(colon + 3, type.size(), type) == 0) {
            const std::string name = input.substr(0, colon), of = input.substr(colon);
            input = name + "0" + of;
            lines += name + " = floor(" + name + "0)" + of + "\n";
        }
    c.body = lines + c.body;
}

void add_typed(std::vector<OpCase>& all, const OpCase& c, const std::string& types)
{
    all.push_back(c);
    all.back().tolerance = c.body.find("f64") == std::string::npos ? 0 : 1e-12;
    std::istringstream words(types);
    for (std::string type; words >> type;) {
        OpCase made = c;
        made.name = typed(c.name, type);
        for (std::string& input : made.inputs)
            input = replaced(input, "f64", type);
        made.body = replaced(made.body, "f64", type);
        if (type != "i32")
            round_inputs(made, type);
        all.push_back(std::move(made));
    }
}

/// Parts of blocks whose sums or heads ranks share. Roots of sums are not exact.
void add_block_parts(std::vector<OpCase>& all)
{
    const std::size_t first = all.size();
    add_cases(all,
              "# norm over several dimensions : f32\n%x : f64[2,5,4,2,3]\n%w : f64[4,2,3]\n"
              "%s = row_squares(%x) {rule=\"b s g r e -> b s\"} : f64[2,5]\n"
              "%m = affine(%s) {alpha=0.041666666666666664, beta=0.5} : f64[2,5]\n"
              "%r = rsqrt(%m) : f64[2,5]\n"
              "%y = scale_rows(%x, %w, %r) {rule=\"b s g r e, g r e, b s -> b s g r e\", offset=1.0} : "
              "f64[2,5,4,2,3]\n"
              "# gradient of a norm over several dimensions : f32\n%dy : f64[2,5,4,3]\n%x : f64[2,5,4,3]\n"
              "%w : f64[4,3]\n"
              "%d = scale_rows_grad_rows(%dy, %x, %w) {rule=\"b s g e, b s g e, g e -> b s\", offset=1.0} : "
              "f64[2,5]\n"
              "%y = row_squares_grad(%d, %x) {rule=\"b s, b s g e -> b s g e\"} : f64[2,5,4,3]\n"
              "# gradient of its weight : f32\n%dy : f64[2,5,4,3]\n%x : f64[2,5,4,3]\n%r : f64[2,5]\n"
              "%y = scale_rows_grad_w(%dy, %x, %r) {rule=\"b s g e, b s g e, b s -> g e\", rounded=1} : "
              "f64[4,3]\n"
              "# rms_norm with an offset : f32\n%x : f64[4,5,6]\n%w : f64[6]\n"
              "%y, %rstd = rms_norm(%x, %w) {eps=0.5, offset=1.0} : f64[4,5,6], f64[4,5]\n"
              "# affine of a sum : f32 bf16\n%a : f64[6,8]\n%b : f64[8,6]\n"
              "%c = matmul(%a, %b) {rule=\"m k, k n -> m n\"} : f64[6,6]\n"
              "%y = affine(%c) {alpha=0.5, beta=1.0} : f64[6,6]\n"
              "# affine without a constant : f32 bf16\n%a : f64[6,8]\n%b : f64[8,6]\n"
              "%c = matmul(%a, %b) {rule=\"m k, k n -> m n\"} : f64[6,6]\n"
              "%y = affine(%c) {alpha=0.5} : f64[6,6]\n"
              "# softcap : f32\n%a : f64[6,9]\n%y = softcap(%a) {cap=2.0} : f64[6,9]\n"
              "# softcap_grad : f32\n%a : f64[6,9]\n%b : f64[6,9]\n"
              "%y = softcap_grad(%a, %b) {cap=2.0} : f64[6,9]\n"
              "# exact gelu : f32\n%a : f64[6,9]\n%y = gelu(%a) {activation=\"gelu\"} : f64[6,9]\n"
              "# swiglu with relu2 : f32\n%a : f64[6,9]\n%b : f64[6,9]\n"
              "%y = swiglu(%a, %b) {activation=\"relu2\"} : f64[6,9]\n");
    for (std::size_t i = first; i < all.size(); ++i)
        if (all[i].tolerance == 0)
            all[i].tolerance = all[i].body.find("bf16") == std::string::npos ? 1e-6 : 1e-2;
}

/// Functions that no kernel computes exactly: a vector's last bit may differ from a single number's.
void add_functions(std::vector<OpCase>& all)
{
    std::string text;
    for (const char* op : {"exp", "expm1", "tanh", "sigmoid", "sin", "cos", "erf"})
        text += str("# ", op, " : f32 bf16\n%a : f64[7,8]\n%y = ", op, "(%a) : f64[7,8]\n");
    for (const char* op : {"log", "log1p", "sqrt", "rsqrt"})
        text += str("# ", op,
                    " : f32 bf16\n%a : f64[7,8]\n%c = multiply(%a, %a) : f64[7,8]\n"
                    "%o = constant() {dtype=\"f64\", value=1.0, shape=\"7 8\"} : f64[7,8]\n"
                    "%b = add(%c, %o) : f64[7,8]\n%y = ",
                    op, "(%b) : f64[7,8]\n");
    text += "# power : f32 bf16 i32\n%a : f64[6,9]\n%b : f64[6,9]\n%c = abs(%a) : f64[6,9]\n"
            "%y = power(%c, %b) : f64[6,9]\n";
    const std::size_t first = all.size();
    add_cases(all, text);
    for (std::size_t i = first; i < all.size(); ++i)
        if (all[i].tolerance == 0)
            all[i].tolerance = all[i].body.find("bf16") == std::string::npos ? 1e-6 : 1e-2;
}

void add_pointwise(std::vector<OpCase>& all)
{
    std::string text;
    for (const char* op : {"negate", "abs", "sign", "floor", "ceil"})
        text += str("# ", op, " : f32 bf16 i32\n%a : f64[7,8]\n%y = ", op, "(%a) : f64[7,8]\n");
    for (const char* op : {"add", "subtract", "multiply", "maximum", "minimum", "divide", "remainder",
                           "logical_and", "logical_or", "logical_xor"})
        text += str("# ", op, " : f32 bf16 i32\n%a : f64[6,9]\n%b : f64[6,9]\n%y = ", op,
                    "(%a, %b) : f64[6,9]\n");
    for (const char* direction : {"eq", "ne", "lt", "le", "gt", "ge"})
        text += str("# compare ", direction,
                    " : f32 bf16 i32\n%a : f64[9,6]\n%b : f64[9,6]\n%y = compare(%a, %b) {direction=\"",
                    direction, "\"} : i32[9,6]\n");
    for (const char* from : {"f64", "f32", "bf16", "i32"})
        for (const char* to : {"f64", "f32", "bf16", "i32"})
            if (from != std::string(to))
                text += str("# cast ", from, " to ", to, "\n%a : ", from, "[6,5]\n%y = cast(%a) {dtype=\"",
                            to, "\"} : ", to, "[6,5]\n");
    text += "# logical_not : f32 bf16 i32\n%a : f64[8,5]\n%y = logical_not(%a) : f64[8,5]\n"
            "# select : f32 bf16 i32\n%p : i32[6,9]\n%a : f64[6,9]\n%b : f64[6,9]\n"
            "%y = select(%p, %a, %b) : f64[6,9]\n"
            "# tanh of scalars\n%a : f64[]\n%y = tanh(%a) : f64[]\n"
            "# multiply small\n%a : f64[1,3,2]\n%b : f64[1,3,2]\n%y = multiply(%a, %b) : f64[1,3,2]\n"
            "# add four dims\n%a : f64[2,3,1,4]\n%b : f64[2,3,1,4]\n%y = add(%a, %b) : f64[2,3,1,4]\n";
    add_cases(all, text);
}

} // namespace

std::string typed(const std::string& name, std::string_view type) { return str(name, ", ", type); }

void add_cases(std::vector<OpCase>& all, std::string_view text)
{
    std::istringstream lines{std::string(text)};
    OpCase next;
    std::string types, last;
    const auto end = [&] {
        if (next.body.empty())
            return;
        next.outputs = results_of(last);
        add_typed(all, next, types);
    };
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# ")) {
            end();
            const std::size_t colon = line.find(" : ");
            next = {line.substr(2, colon == std::string::npos ? colon : colon - 2), {}, {}, {}};
            types = colon == std::string::npos ? "" : line.substr(colon + 3);
        } else if (line.starts_with("%") && line.find(" = ") == std::string::npos) {
            next.inputs.push_back(line);
        } else if (!line.empty()) {
            next.body += line + "\n";
            last = line;
        }
    }
    end();
}

std::vector<OpCase> op_cases()
{
    std::vector<OpCase> all;
    add_block_parts(all);
    add_functions(all);
    add_pointwise(all);
    for (const char* text : {shape_cases, window_cases, convolution_cases, index_cases})
        add_cases(all, text);
    return all;
}

std::vector<OpCase> expert_op_cases()
{
    std::vector<OpCase> all;
    add_cases(all, expert_cases);
    return all;
}

} // namespace trivium
