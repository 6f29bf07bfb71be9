// Low-rank adapters: x W + s (dropout(x) A) B (E. Hu et al. 2021, arXiv:2106.09685), and with magnitudes m
// the columns of W + s A B at length m (S. Liu et al. 2024, "DoRA: weight-decomposed low-rank adaptation",
// arXiv:2402.09353, equation 5), through whose lengths no gradient flows (section 4.3).
#include "base/check.hpp"
#include "model/blocks.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using Dims = std::vector<std::string>;

bool has(const Dims& dims, const std::string& dim) { return std::ranges::find(dims, dim) != dims.end(); }

Dims joined(Dims a, const Dims& b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Rule rule_of(const Dims& a, const Dims& b, const Dims& c) { return Rule({{{a}, {b}}, {{c}}}); }

Dims letters(const std::string& text)
{
    Dims dims;
    for (const char letter : text)
        dims.emplace_back(1, letter);
    return dims;
}

const std::string rank(1, rank_dim);

} // namespace

bool ModelBuilder::has_adapter() const
{
    const auto at = listed_.find(listed("weight"));
    if (at == listed_.end())
        return false;
    ModelParameter weight = at->second;
    weight.name = scoped("weight");
    return c_.trained.has_adapter(weight);
}

ValueId ModelBuilder::adapter_part(const std::string& name, DType type)
{
    const ModelParameter& weight = listed_.at(listed("weight"));
    ValueId part = stored_[scoped(name)];
    if (!part) {
        double inputs = 1;
        for (const char dim : weight.in)
            inputs *= static_cast<double>(extent_of(m_, dim));
        const bool is_table = b_.where.scope == "embed" || b_.where.scope == "positions";
        Init init = FillInit{0};
        if (is_table && name == lora_b)
            init = NormalInit{1};
        else if (!is_table && name == lora_a)
            init = UniformInit{1 / std::sqrt(inputs)};
        part = parameter(name, init);
        if (name != lora_magnitude)
            decays(part, name == lora_a ? static_cast<int>(weight.in.size()) : 1,
                   weight.has_experts() ? 1 : 0);
    }
    return compute_copy(part, type);
}

ValueId ModelBuilder::adapter_input(ValueId x)
{
    const Regularisers& r = c_.regularisers;
    if (r.adapter_dropout == 0)
        return x;
    Attributes attributes = order_attributes();
    attributes.rate = r.adapter_dropout;
    // After the streams of the blocks' own dropout.
    attributes.lists.set(Attr::stream, {r.seed, 2 * (m_.layers + 2) + adapters_++});
    const Shape shape = b_.graph()[x].type.shape;
    Shape flat{shape[0], shape[1], 1};
    for (std::size_t d = 2; d < shape.size(); ++d)
        flat[2] *= shape[d];
    const bool is_flat = flat == shape;
    const ValueId y = b_.op1(OpKind::dropout, {is_flat ? x : shaped(x, flat), sample_numbers()}, attributes,
                             scoped("dropped"));
    return is_flat ? y : shaped(y, shape);
}

ValueId ModelBuilder::whole_input(ValueId x, const Rule& rule)
{
    const Dims& of_x = rule->operands[0].dims;
    const auto is_wide = [&](const std::string& dim) { return !sharding_of({dim}).dims[0].axes.empty(); };
    if (!c_.axes.sequence || c_.axes.tensor.empty() || !has_adapter() || !has(of_x, "s") ||
        is_wide(of_x.back()) || std::ranges::none_of(rule->operands[1].dims, is_wide))
        return x;
    ValueId& whole = whole_inputs_[x];
    if (!whole) {
        Dims dims = of_x;
        std::ranges::replace(dims, std::string("s"), std::string("t"));
        b_.where.stays_partial = true; // its gradient is summed over tensor ranks into the shards of x
        whole = annotate(b_.reshard_to(x, {}), dims);
        b_.where.stays_partial = false;
    }
    return whole;
}

ValueId ModelBuilder::adapted(ValueId x, ValueId y, const Rule& rule)
{
    if (!has_adapter())
        return y;
    const Dims &of_x = rule->operands[0].dims, &of_y = rule->results[0].dims;
    Dims in, out, tokens;
    for (const std::string& dim : rule->operands[1].dims)
        (has(of_x, dim) ? in : out).push_back(dim);
    for (const std::string& dim : of_x)
        if (!has(in, dim))
            tokens.push_back(dim);
    const ValueId a = adapter_part(lora_a, c_.compute), b = adapter_part(lora_b, c_.compute);
    // One reduction sums their partial results and those of x W.
    b_.where.stays_partial = true;
    const ValueId inner =
        b_.op1(OpKind::matmul, {adapter_input(x), a},
               {.rule = rule_of(of_x, joined(in, {rank}), joined(tokens, {rank}))}, scoped("inner"));
    const ValueId low_rank =
        b_.op1(OpKind::matmul, {times(inner, c_.trained.scale()), b},
               {.rule = rule_of(joined(tokens, {rank}), joined({rank}, out), of_y)}, scoped("low_rank"));
    b_.where.stays_partial = false;
    y = b_.sum_of(y, low_rank);
    if (!c_.trained.lora.magnitudes)
        return y;
    const ValueId factors = b_.cast_to(column_factors(magnitudes(), Region::microbatch), c_.compute);
    const Shape& shape = b_.graph()[y].type.shape;
    Attributes ones{.dtype = accumulator_of(c_.compute), .value = 1};
    ones.lists.set(Attr::shape, Shape(shape.begin(), shape.begin() + std::ssize(tokens)));
    Attributes scaled{.rule = Rule({{{of_y}, {out}, {tokens}}, {{of_y}}}), .offset = 1};
    return b_.op1(OpKind::scale_rows, {y, factors, b_.op1(OpKind::constant, {}, ones)}, scaled,
                  scoped("scaled"));
}

ValueId ModelBuilder::looked_up(ValueId table, ValueId rows)
{
    const std::string name = scoped("out");
    const ValueId y = b_.op1(OpKind::embedding, {table, rows}, {}, name);
    if (!has_adapter())
        return y;
    const ValueId a = adapter_part(lora_a, c_.compute), b = adapter_part(lora_b, c_.compute);
    if (b_.where.scope == "embed")
        annotate(a, {"v", rank});
    const ValueId inner = b_.op1(OpKind::embedding, {a, rows}, {}, scoped("inner"));
    return b_.sum_of(y, b_.op1(OpKind::matmul, {times(inner, c_.trained.scale()), b},
                               {.rule = "b s z, z d -> b s d"}, scoped("low_rank")));
}

ModelBuilder::Magnitudes ModelBuilder::magnitudes()
{
    const DType exact = accumulator_of(c_.compute);
    const ModelParameter& of = listed_.at(listed("weight"));
    const std::string x = of.has_experts() ? "x" : "";
    const ValueId a = adapter_part(lora_a, exact), b = adapter_part(lora_b, exact);
    b_.where.region = Region::prologue;
    const ValueId weight = b_.cast_to(stored_.at(scoped("weight")), exact);
    const ValueId change = b_.op1(
        OpKind::matmul, {a, b},
        {.rule = rule_of(letters(x + of.in + rank_dim), letters(x + rank_dim + of.out), letters(of.dims))});
    Magnitudes made;
    made.merged = b_.weighted(1, weight, c_.trained.scale(), change);
    const auto squares = [&](ValueId matrix) {
        Attributes over{.combine = Combine::sum};
        std::vector<i64> dims;
        for (std::size_t d = 0; d < of.dims.size(); ++d)
            if (of.in.find(of.dims[d]) != std::string::npos)
                dims.push_back(static_cast<i64>(d));
        over.lists.set(Attr::dims, dims);
        return b_.op1(OpKind::reduce, {b_.op1(OpKind::multiply, {matrix, matrix})}, over);
    };
    made.before = b_.op1(OpKind::sqrt, {squares(weight)});
    made.inverse = b_.op1(OpKind::rsqrt, {squares(made.merged)}, {}, scoped("inverse_length"));
    b_.where.region = Region::microbatch;
    return made;
}

ValueId ModelBuilder::column_factors(const Magnitudes& lengths, Region region)
{
    const ValueId change = adapter_part(lora_magnitude, accumulator_of(c_.compute));
    b_.where.region = region;
    const ValueId factor = b_.op1(OpKind::multiply, {b_.sum_of(change, lengths.before), lengths.inverse});
    const ValueId factors = b_.op1(OpKind::affine, {factor}, {.alpha = 1, .beta = -1});
    b_.where.region = Region::microbatch;
    return factors;
}

ValueId ModelBuilder::merged_weight(ValueId weight)
{
    if (!has_adapter())
        return weight;
    const ModelParameter& of = listed_.at(listed("weight"));
    const Magnitudes lengths = magnitudes();
    ValueId whole = lengths.merged;
    if (c_.trained.lora.magnitudes) {
        const ValueId factors = column_factors(lengths, Region::prologue);
        b_.where.region = Region::prologue;
        std::vector<i64> dims;
        for (std::size_t d = of.in.size(); d < of.dims.size(); ++d)
            dims.push_back(static_cast<i64>(d));
        const ValueId wide =
            b_.op1(OpKind::broadcast, {factors},
                   {.lists = {{Attr::dims, dims}, {Attr::shape, b_.graph()[whole].type.shape}}});
        whole = b_.sum_of(whole, b_.op1(OpKind::multiply, {whole, wide}));
    }
    b_.where.region = Region::prologue;
    whole = b_.cast_to(whole, c_.compute);
    b_.where.region = Region::microbatch;
    return whole;
}

} // namespace trivium
