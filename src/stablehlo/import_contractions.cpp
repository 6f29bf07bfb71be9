// Products and convolutions.
#include "stablehlo/counting.hpp"
#include "stablehlo/importer.hpp"

#include <algorithm>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;
using Numbers = I::Numbers;

/// The product in the type of its result: bf16 times bf16 may give f32.
ValueId product(I& i, const HloOp& op, ValueId a, ValueId b, Rule rule)
{
    Attributes attrs{.rule = std::move(rule)};
    const DType to = i.dtype(i.result_type(op), op);
    const DType left = i.graph()[a].type.dtype;
    if (left == i.graph()[b].type.dtype && left == DType::bf16 && to == DType::f32) {
        attrs.dtype = to;
    } else {
        a = i.cast(op, a, to);
        b = i.cast(op, b, to);
    }
    return i.emit(op, K::matmul, {a, b}, std::move(attrs));
}

void dot_of(I& i, const HloOp& op, const Numbers (&batch)[2], const Numbers (&summed)[2])
{
    Rule::Tensor operands[2], result;
    i.require(batch[0].size() == batch[1].size() && summed[0].size() == summed[1].size(), op,
              "its lists of dimensions differ in length");
    for (const int side : {0, 1}) {
        const auto rank = static_cast<i64>(i.shape(op, static_cast<std::size_t>(side)).size());
        auto& dims = operands[side].dims;
        dims.resize(static_cast<std::size_t>(rank));
        for (const auto& [list, letter] : {std::pair(&batch[side], 'b'), std::pair(&summed[side], 'k')})
            for (std::size_t d = 0; d < list->size(); ++d) {
                const i64 dim = (*list)[d];
                i.require(dim >= 0 && dim < rank && dims[static_cast<std::size_t>(dim)].empty(), op,
                          "it names a dimension twice, or one that its operand lacks");
                dims[static_cast<std::size_t>(dim)] = str(letter, d);
            }
        for (std::size_t d = 0; d < dims.size(); ++d)
            if (dims[d].empty())
                dims[d] = str(side == 0 ? "m" : "n", d);
    }
    for (std::size_t d = 0; d < batch[0].size(); ++d)
        result.dims.push_back(str("b", d));
    for (const Rule::Tensor& operand : operands)
        for (const std::string& dim : operand.dims)
            if (dim[0] == 'm' || dim[0] == 'n')
                result.dims.push_back(dim);
    Rule rule(Rule::Parts{{operands[0], operands[1]}, {result}});
    i.give(op, product(i, op, i.value(op, 0), i.value(op, 1), std::move(rule)));
}

void dot_general(I& i, const HloOp& op)
{
    Numbers batch[2], summed[2];
    const auto read = [&](const char* name, Numbers(&to)[2]) {
        const HloAttribute* pair = op.attributes.find(name);
        if (!pair)
            return;
        i.require(pair->items.size() == 2, op, str("its ", name, " are not two lists"));
        for (const std::size_t side : {0u, 1u})
            to[side] = numbers_of(&pair->items[side]);
    };
    read("batching_dims", batch);
    read("contracting_dims", summed);
    if (const HloAttribute* numbers = op.attributes.find("dot_dimension_numbers")) { // #stablehlo.dot<…>
        const HloAttribute read_text = i.inner_dictionary(op, *numbers);
        batch[0] = numbers_of(read_text.find("lhs_batching_dimensions"));
        batch[1] = numbers_of(read_text.find("rhs_batching_dimensions"));
        summed[0] = numbers_of(read_text.find("lhs_contracting_dimensions"));
        summed[1] = numbers_of(read_text.find("rhs_contracting_dimensions"));
    }
    dot_of(i, op, batch, summed);
}

void dot(I& i, const HloOp& op)
{
    i.require(!i.shape(op, 0).empty() && !i.shape(op, 1).empty(), op, "an operand is a scalar");
    const Numbers none[2], summed[2] = {{static_cast<i64>(i.shape(op, 0).size()) - 1}, {0}};
    dot_of(i, op, none, summed);
}

/// Of "[b, f, 0, 1]": where the dimensions called `first` and `second` are, then 0, 1, ….
Numbers places(const I& i, const HloOp& op, const std::string& text, char first, char second)
{
    std::vector<std::string> names;
    std::string word;
    for (const char c : text)
        if (c == ',' || c == ']') {
            names.push_back(word);
            word.clear();
        } else if (c != '[' && c != ' ') {
            word += c;
        }
    Numbers found;
    std::vector<std::string> wanted{std::string(1, first), std::string(1, second)};
    for (std::size_t d = 0; d + 2 < names.size(); ++d)
        wanted.push_back(std::to_string(d));
    for (const std::string& name : wanted) {
        const auto at = std::ranges::find(names, name);
        i.require(at != names.end(), op,
                  "its dimension numbers are not of the form [b, f, 0, 1]x[o, i, 0, 1]->…");
        found.push_back(at - names.begin());
    }
    return found;
}

/// Attributes of a convolution, of either form.
struct ConvolutionWindows {
    Numbers stride, low, high, base, dilation, reversed;
    i64 groups = 1, batch_groups = 1;
};

ConvolutionWindows convolution_windows(const I& i, const HloOp& op, std::size_t spatial)
{
    ConvolutionWindows w;
    const HloAttribute* window = op.attributes.find("window");
    const auto list = [&](const char* pretty, const char* generic, std::size_t length, i64 otherwise) {
        return i.list_or(op, window ? window->find(pretty) : op.attributes.find(generic), generic, length,
                         otherwise);
    };
    w.stride = list("stride", "window_strides", spatial, 1);
    const Numbers padding = list("pad", "padding", 2 * spatial, 0);
    w.base = list("lhs_dilate", "lhs_dilation", spatial, 1);
    w.dilation = list("rhs_dilate", "rhs_dilation", spatial, 1);
    w.reversed = list("reverse", "window_reversal", spatial, 0);
    for (std::size_t d = 0; d < spatial; ++d) {
        w.low.push_back(padding[2 * d]);
        w.high.push_back(padding[2 * d + 1]);
    }
    const auto count = [&](const char* name) {
        const Numbers n = numbers_of(op.attributes.find(name));
        return n.empty() ? 1 : n[0];
    };
    w.groups = count("feature_group_count");
    w.batch_groups = count("batch_group_count");
    return w;
}

/// Groups of the batch become groups of channels: x [G b, c, …] as [b, G c, …].
ValueId regrouped(I& i, const HloOp& op, ValueId x, i64 groups)
{
    Shape shape = i.shape_of(x);
    i.require(shape[0] % groups == 0, op, "its groups do not divide the batch");
    const i64 batch = shape[0] / groups, channels = shape[1];
    shape[0] = batch;
    shape.insert(shape.begin(), groups);
    Numbers order = counting(shape.size());
    std::swap(order[0], order[1]);
    x = i.transposed(op, i.reshaped(op, x, shape), order);
    shape.erase(shape.begin());
    shape[1] = groups * channels;
    return i.reshaped(op, x, shape);
}

void convolution(I& i, const HloOp& op)
{
    const HloAttribute* numbers = op.attributes.find("dimension_numbers");
    i.require(numbers, op, "it lacks dimension numbers");
    const std::string& text = numbers->text;
    const std::size_t times = text.find("]x["), arrow = text.find("]->[");
    i.require(times != std::string::npos && arrow != std::string::npos && times < arrow, op,
              "its dimension numbers are not of the form [b, f, 0, 1]x[o, i, 0, 1]->…");
    const Numbers in = places(i, op, text.substr(0, times + 1), 'b', 'f'),
                  weights = places(i, op, text.substr(times + 2, arrow - times - 1), 'o', 'i'),
                  out = places(i, op, text.substr(arrow + 3), 'b', 'f');
    const std::size_t rank = i.shape(op, 0).size(), spatial = rank - 2;
    i.require(rank >= 2 && in.size() == rank && weights.size() == rank && out.size() == rank &&
                  i.shape(op, 1).size() == rank,
              op, "its dimension numbers do not fit its operands");
    const ConvolutionWindows w = convolution_windows(i, op, spatial);
    const DType to = i.dtype(i.result_type(op), op);
    ValueId x = i.transposed(op, i.cast(op, i.value(op, 0), to), in),
            y = i.transposed(op, i.cast(op, i.value(op, 1), to), weights);
    Numbers turned;
    for (std::size_t d = 0; d < spatial; ++d)
        if (w.reversed[d])
            turned.push_back(static_cast<i64>(d) + 2);
    if (!turned.empty())
        y = i.emit(op, K::reverse, {y}, {.lists = {{Attr::dims, turned}}});
    i64 groups = w.groups;
    if (w.batch_groups != 1) {
        i.require(w.batch_groups > 0 && groups == 1, op, "it has groups of the batch and of the channels");
        x = regrouped(i, op, x, w.batch_groups);
        groups = w.batch_groups;
    }
    ValueId made;
    if (spatial == 0) {
        Shape wide = i.shape_of(x), narrow = i.shape_of(y);
        wide.push_back(1);
        narrow.push_back(1);
        made = i.emit(op, K::convolution, {i.reshaped(op, x, wide), i.reshaped(op, y, narrow)},
                      {.lists = {{Attr::groups, {groups}}}});
        Shape flat = i.shape_of(made);
        flat.pop_back();
        made = i.reshaped(op, made, flat);
    } else {
        NumberLists lists{{Attr::stride, w.stride},
                          {Attr::low, w.low},
                          {Attr::high, w.high},
                          {Attr::dilation, w.dilation},
                          {Attr::base, w.base}};
        if (groups != 1)
            lists.set(Attr::groups, {groups});
        made = i.emit(op, K::convolution, {x, y}, {.lists = lists});
    }
    Numbers back(rank); // dimension out[d] of the result is dimension d of what was made
    for (std::size_t d = 0; d < rank; ++d)
        back[static_cast<std::size_t>(out[d])] = static_cast<i64>(d);
    i.give(op, i.transposed(op, made, back));
}

} // namespace

void add_contractions(HloHandlers& all)
{
    all.insert({{"dot_general", dot_general}, {"dot", dot}, {"convolution", convolution}});
}

} // namespace trivium
