#include "gradient_cases.hpp"

namespace trivium::runs {

namespace {

using A = Attr;
using K = OpKind;
using V = std::vector<ValueId>;
using L = NumberLists;

/// The op on parameters of these shapes.
GradientCase op(std::string name, OpKind kind, std::vector<Shape> shapes, Attributes attrs = {})
{
    return {std::move(name), [=](Builder& b) -> V {
                V in;
                for (std::size_t i = 0; i < shapes.size(); ++i)
                    in.push_back(parameter(b, str("x", i), shapes[i]));
                return b.op(kind, in, attrs);
            }};
}

ValueId constant(Builder& b, DType dtype, Shape shape, double value)
{
    return b.op1(K::constant, {}, {.dtype = dtype, .value = value, .lists = {{A::shape, std::move(shape)}}});
}

/// x x + 1/4: parameters may be negative, logarithms and roots not.
ValueId positive(Builder& b, ValueId x)
{
    const ValueId quarter = constant(b, DType::f64, b.graph()[x].type.shape, 0.25);
    return b.op1(K::add, {b.op1(K::multiply, {x, x}), quarter});
}

GradientCase of_positive(std::string name, OpKind kind)
{
    return {std::move(name), [=](Builder& b) -> V {
                return {b.op1(kind, {positive(b, parameter(b, "x", {3, 4}))})};
            }};
}

/// x with zeros where the index along dimension 1 is below `count`.
ValueId with_zeros(Builder& b, ValueId x, double count)
{
    const Shape shape = b.graph()[x].type.shape;
    const ValueId places =
        b.op1(K::iota, {}, {.dtype = DType::i32, .lists = {{A::shape, shape}, {A::dims, {1}}}});
    const ValueId low =
        b.op1(K::compare, {places, constant(b, DType::i32, shape, count)}, {.direction = "lt"});
    return b.op1(K::select, {low, constant(b, DType::f64, shape, 0), x});
}

/// A tensor of which pairs of neighbours along dimension 0 are equal.
ValueId twice(Builder& b, ValueId x)
{
    const Shape shape = b.graph()[x].type.shape;
    const ValueId wide =
        b.op1(K::broadcast, {x}, {.lists = {{A::dims, {0, 2}}, {A::shape, {shape[0], 2, shape[1]}}}});
    return b.op1(K::reshape, {wide}, {.lists = {{A::shape, {2 * shape[0], shape[1]}}}});
}

std::vector<GradientCase> elements()
{
    std::vector<GradientCase> all;
    for (const K kind : {K::negate, K::abs, K::exp, K::expm1, K::tanh, K::sigmoid, K::sin, K::cos, K::erf})
        all.push_back(op(info(kind).name, kind, {{3, 4}}));
    for (const K kind : {K::sign, K::floor, K::ceil}) // whose own gradient is 0
        all.push_back({info(kind).name, [=](Builder& b) -> V {
                           const ValueId x = parameter(b, "x", {3, 4});
                           return {b.op1(kind, {x}), b.op1(K::negate, {x})};
                       }});
    for (const K kind : {K::log, K::log1p, K::sqrt, K::rsqrt})
        all.push_back(of_positive(info(kind).name, kind));
    for (const K kind : {K::subtract, K::multiply, K::maximum, K::minimum})
        all.push_back(op(info(kind).name, kind, {{3, 4}, {3, 4}}));
    for (const K kind : {K::divide, K::remainder})
        all.push_back(
            {info(kind).name, [=](Builder& b) -> V {
                 return {b.op1(kind, {parameter(b, "x", {3, 4}), positive(b, parameter(b, "y", {3, 4}))})};
             }});
    all.push_back(
        {"power", [](Builder& b) -> V {
             return {b.op1(K::power, {positive(b, parameter(b, "x", {3, 4})), parameter(b, "y", {3, 4})})};
         }});
    all.push_back({"power of zero", [](Builder& b) -> V {
                       const ValueId x = with_zeros(b, positive(b, parameter(b, "x", {3, 4})), 2);
                       const ValueId y = b.op1(K::add, {positive(b, parameter(b, "y", {3, 4})),
                                                        constant(b, DType::f64, {3, 4}, 2)});
                       return {b.op1(K::power, {x, y})};
                   }});
    all.push_back(
        {"power of zero to zero", [](Builder& b) -> V { // 1 for any base, whose gradient is 0
             const ValueId x = with_zeros(b, positive(b, parameter(b, "x", {3, 4})), 2);
             return {b.op1(K::power, {x, constant(b, DType::f64, {3, 4}, 0)}), b.op1(K::negate, {x})};
         }});
    all.push_back({"maximum of equal operands", [](Builder& b) -> V {
                       const ValueId x = parameter(b, "x", {3, 4});
                       return {b.op1(K::maximum, {x, x}), b.op1(K::minimum, {x, x})};
                   }});
    all.push_back({"a cast to integers and back", [](Builder& b) -> V {
                       const ValueId x = parameter(b, "x", {3, 4});
                       const ValueId whole =
                           b.op1(K::cast, {b.op1(K::multiply, {x, constant(b, DType::f64, {3, 4}, 5)})},
                                 {.dtype = DType::i32});
                       return {b.op1(K::cast, {whole}, {.dtype = DType::f64}), b.op1(K::negate, {x})};
                   }});
    all.push_back({"select", [](Builder& b) -> V {
                       return {b.op1(K::select, {ids(b, "p<2", {3, 4}), parameter(b, "x", {3, 4}),
                                                 parameter(b, "y", {3, 4})})};
                   }});
    return all;
}

std::vector<GradientCase> shapes()
{
    std::vector<GradientCase> all;
    for (const Combine combine : {Combine::sum, Combine::max, Combine::min, Combine::product}) {
        all.push_back(
            op("reduce", K::reduce, {{2, 3, 4}}, {.combine = combine, .lists = {{A::dims, {2, 0}}}}));
        all.push_back(op("reduce to a scalar", K::reduce, {{3, 2}},
                         {.combine = combine, .lists = {{A::dims, {0, 1}}}}));
    }
    for (const double zeros : {1.0, 2.0})
        all.push_back(
            {"product of zeros", [=](Builder& b) -> V {
                 const ValueId x = with_zeros(b, parameter(b, "x", {3, 4}), zeros);
                 return {b.op1(K::reduce, {x}, {.combine = Combine::product, .lists = {{A::dims, {1}}}})};
             }});
    for (const Combine combine : {Combine::max, Combine::min})
        all.push_back({"extremum of equal elements", [=](Builder& b) -> V {
                           const ValueId x = twice(b, parameter(b, "x", {2, 3}));
                           return {b.op1(K::reduce, {x}, {.combine = combine, .lists = {{A::dims, {0}}}})};
                       }});
    all.push_back(
        op("broadcast", K::broadcast, {{3, 1}}, {.lists = {{A::dims, {2, 0}}, {A::shape, {4, 2, 3}}}}));
    all.push_back(op("broadcast in another order", K::broadcast, {{2, 3, 1, 2}},
                     {.lists = {{A::dims, {3, 0, 1, 2}}, {A::shape, {3, 4, 2, 2}}}}));
    all.push_back(
        op("broadcast of a scalar", K::broadcast, {{}}, {.lists = {{A::dims, {}}, {A::shape, {2, 3}}}}));
    all.push_back(op("transpose", K::transpose, {{2, 3, 4}}, {.lists = {{A::dims, {2, 0, 1}}}}));
    all.push_back(op("reshape", K::reshape, {{2, 3, 4}}, {.lists = {{A::shape, {4, 6}}}}));
    all.push_back(op("reverse", K::reverse, {{2, 3, 4}}, {.lists = {{A::dims, {2, 0}}}}));
    all.push_back(op("slice", K::slice, {{7, 8}},
                     {.lists = {{A::start, {1, 2}}, {A::limit, {6, 8}}, {A::stride, {2, 3}}}}));
    all.push_back(
        op("slice without strides", K::slice, {{7, 4}}, {.lists = {{A::start, {1, 0}}, {A::limit, {6, 3}}}}));
    all.push_back(
        op("pad", K::pad, {{3, 4}},
           {.value = 1.5, .lists = {{A::low, {1, -1}}, {A::high, {-1, 2}}, {A::interior, {2, 0}}}}));
    all.push_back(op("pad that cuts between elements", K::pad, {{5}},
                     {.value = 0.0, .lists = {{A::low, {-2}}, {A::high, {-4}}, {A::interior, {2}}}}));
    all.push_back(op("pad that cuts all", K::pad, {{2}},
                     {.value = 0.5, .lists = {{A::low, {-3}}, {A::high, {4}}, {A::interior, {1}}}}));
    all.push_back(
        op("concatenate", K::concatenate, {{2, 1, 3}, {2, 4, 3}, {2, 2, 3}}, {.lists = {{A::dims, {1}}}}));
    return all;
}

GradientCase gathered(std::string name, Shape x, Shape indices, NumberLists lists)
{
    return {std::move(name), [=](Builder& b) -> V { // starts from -2 to 6
                const ValueId at =
                    b.op1(K::subtract, {ids(b, "at<9", indices), constant(b, DType::i32, indices, 2)});
                return {b.op1(K::gather, {parameter(b, "x", x), at}, {.lists = lists})};
            }};
}

GradientCase scattered(std::string name, Shape x, Shape indices, Shape updates, NumberLists lists,
                       std::optional<Combine> combine = Combine::sum)
{
    return {std::move(name), [=](Builder& b) -> V {
                const ValueId at =
                    b.op1(K::subtract, {ids(b, "at<9", indices), constant(b, DType::i32, indices, 2)});
                return {b.op1(K::scatter, {parameter(b, "x", x), at, parameter(b, "u", updates)},
                              {.combine = combine, .lists = lists})};
            }};
}

std::vector<GradientCase> indices()
{
    return {
        {"dynamic_slice",
         [](Builder& b) -> V {
             return {b.op1(
                 K::dynamic_slice,
                 {parameter(b, "x", {5, 4, 3}), ids(b, "i<9", {}), ids(b, "j<3", {}), ids(b, "k<2", {})},
                 {.lists = {{A::shape, {2, 2, 3}}}})};
         }},
        {"dynamic_update_slice",
         [](Builder& b) -> V {
             return {
                 b.op1(K::dynamic_update_slice, {parameter(b, "x", {5, 4, 3}), parameter(b, "u", {2, 2, 3}),
                                                 ids(b, "i<9", {}), ids(b, "j<3", {}), ids(b, "k<2", {})})};
         }},
        gathered(
            "rows", {5, 3}, {4},
            {{A::offset_dims, {1}}, {A::collapsed_dims, {0}}, {A::index_map, {0}}, {A::slice_sizes, {1, 3}}}),
        gathered("windows of two dimensions", {5, 6}, {3, 2},
                 {{A::offset_dims, {0, 2}},
                  {A::index_map, {1, 0}},
                  {A::index_dim, {1}},
                  {A::slice_sizes, {2, 3}}}),
        gathered("a batch of rows", {3, 5, 2}, {4, 3},
                 {{A::offset_dims, {1}},
                  {A::collapsed_dims, {1}},
                  {A::batch_dims, {0}},
                  {A::index_batch_dims, {1}},
                  {A::index_map, {1}},
                  {A::slice_sizes, {1, 1, 2}}}),
        gathered("a gather that does not clamp", {5, 3}, {4},
                 {{A::offset_dims, {1, 2}}, {A::index_map, {0}}, {A::clamp, {0}}, {A::slice_sizes, {2, 3}}}),
        scattered("rows that are added", {5, 3}, {4}, {4, 3},
                  {{A::offset_dims, {1}}, {A::collapsed_dims, {0}}, {A::index_map, {0}}}),
        scattered("windows that are added", {5, 6}, {3, 2}, {2, 3, 3},
                  {{A::offset_dims, {0, 2}}, {A::index_map, {1, 0}}, {A::index_dim, {1}}}),
        scattered("a batch of rows that are added", {3, 5, 2}, {4, 3}, {4, 2, 3},
                  {{A::offset_dims, {1}},
                   {A::collapsed_dims, {1}},
                   {A::batch_dims, {0}},
                   {A::index_batch_dims, {1}},
                   {A::index_map, {1}}}),
        scattered("rows that are overwritten", {5, 3}, {6}, {6, 3},
                  {{A::offset_dims, {1}}, {A::collapsed_dims, {0}}, {A::index_map, {0}}}, {}),
        scattered("windows that are overwritten", {5, 6}, {3, 2}, {2, 3, 3},
                  {{A::offset_dims, {0, 2}}, {A::index_map, {1, 0}}, {A::index_dim, {1}}}, {}),
        scattered("a scatter that clamps", {5, 3}, {4}, {4, 2, 3},
                  {{A::offset_dims, {1, 2}}, {A::index_map, {0}}, {A::clamp, {1}}}),
        op("sort", K::sort, {{3, 5}, {3, 5}}, {.lists = {{A::dims, {1}}}}),
        op("sort descending along dimension 0", K::sort, {{5, 2}, {5, 2}},
           {.lists = {{A::dims, {0}}, {A::descending, {1}}}}),
        {"sort of equal keys",
         [](Builder& b) -> V {
             return {b.op(K::sort, {ids(b, "keys<3", {2, 6}), parameter(b, "x", {2, 6})},
                          {.lists = {{A::dims, {1}}}})[1]};
         }},
        {"top_k",
         [](Builder& b) -> V {
             return {b.op(K::top_k, {parameter(b, "x", {3, 2, 6})}, {.lists = {{A::count, {2}}}})[0]};
         }},
        {"top_k of a vector",
         [](Builder& b) -> V {
             return {b.op(K::top_k, {parameter(b, "x", {6})}, {.lists = {{A::count, {3}}}})[0]};
         }},
        op("cumsum", K::cumsum, {{3, 4, 2}}, {.lists = {{A::dims, {1}}}}),
        op("cumsum backwards", K::cumsum, {{3, 4, 2}}, {.lists = {{A::dims, {0}}, {A::backwards, {1}}}}),
    };
}

std::vector<GradientCase> windows()
{
    std::vector<GradientCase> all = {
        op("convolution", K::convolution, {{2, 3, 6}, {4, 3, 3}}),
        op("convolution with strides and pads", K::convolution, {{2, 2, 5, 6}, {3, 2, 2, 3}},
           {.lists = {{A::stride, {2, 1}}, {A::low, {1, 2}}, {A::high, {0, -1}}}}),
        op("convolution in groups, dilated", K::convolution, {{1, 4, 7, 5}, {6, 2, 2, 2}},
           {.lists = {{A::stride, {1, 2}},
                      {A::low, {-1, 1}},
                      {A::high, {2, 0}},
                      {A::dilation, {2, 3}},
                      {A::base, {1, 2}},
                      {A::groups, {2}}}}),
        op("convolution of each channel", K::convolution, {{2, 3, 5}, {3, 1, 2}},
           {.lists = {{A::base, {3}}, {A::groups, {3}}}}),
        op("convolution of three dimensions", K::convolution, {{1, 2, 3, 4, 3}, {2, 2, 2, 2, 2}},
           {.lists = {{A::stride, {1, 2, 1}},
                      {A::low, {1, 0, 1}},
                      {A::high, {1, 1, -1}},
                      {A::dilation, {1, 1, 2}},
                      {A::base, {1, 2, 2}}}}),
        op("convolution whose last input is not read", K::convolution, {{1, 1, 6}, {1, 1, 2}},
           {.lists = {{A::stride, {3}}}}),
    };
    for (const Combine combine : {Combine::sum, Combine::max, Combine::min}) {
        all.push_back(op("pool", K::pool, {{2, 6, 5}},
                         {.combine = combine,
                          .lists = {{A::window, {1, 2, 3}},
                                    {A::stride, {1, 2, 2}},
                                    {A::low, {0, 0, 1}},
                                    {A::high, {0, 1, 1}}}}));
        all.push_back(op("pool with overlaps and dilations", K::pool, {{5, 6}},
                         {.combine = combine,
                          .lists = {{A::window, {2, 3}},
                                    {A::low, {1, 1}},
                                    {A::high, {0, -1}},
                                    {A::dilation, {2, 1}},
                                    {A::base, {1, 2}}}}));
    }
    all.push_back(op("mixed product", K::matmul, {{2, 3, 4}, {3, 5}}, {.rule = "a k b, k c -> a c b"}));
    all.push_back(
        op("product summed in one operand", K::matmul, {{3, 4}, {3, 2}}, {.rule = "a b, a c -> c"}));
    return all;
}

} // namespace

std::vector<GradientCase> general_cases()
{
    std::vector<GradientCase> all;
    for (const auto& some : {elements(), shapes(), indices(), windows()})
        all.insert(all.end(), some.begin(), some.end());
    return all;
}

} // namespace trivium::runs
