#include "train/generator.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// A number of each row.
template <class At>
SampleArray row_array(At at)
{
    return {{DType::i32, {}}, [at](i64 row, const Box&, void* to) {
                *static_cast<std::int32_t*>(to) =
                    static_cast<std::int32_t>(at(static_cast<std::size_t>(row)));
            }};
}

} // namespace

Generator::Generator(Engine& engine) : engine_(engine)
{
    const Graph& graph = *engine.program(prefill_program).sharded;
    rows_ = graph[graph.find(value_name::tokens)].type.shape[0];
    capacity_ = graph[graph.with_role(Role::state)[0]].type.shape[1];
    const ValueId table = graph.find("positions.weight");
    positions_ = table ? graph[table].type.shape[0] : capacity_;
}

const Value& Generator::logits(std::size_t program) const
{
    const Graph& graph = *engine_.program(program).sharded;
    return graph[graph.outputs[0]];
}

i64 Generator::vocab() const { return logits(prefill_program).type.shape.back(); }

bool Generator::has_scores() const { return engine_.compiled().programs.size() > score_program; }

i64 Generator::queries(std::size_t program) const
{
    const Graph& graph = *engine_.program(program).sharded;
    return graph[graph.find(value_name::tokens)].type.shape[1];
}

void Generator::run(const GeneratorCall& call)
{
    const Graph& graph = engine_.program(call.program).graph;
    const i64 count = queries(call.program);
    const Batch batch{
        {{value_name::tokens,
          sequence_array(
              count, [&](i64 row, i64 i) { return call.tokens[static_cast<std::size_t>(row * count + i)]; })},
         // Padding follows the tokens; later calls overwrite what it writes.
         {value_name::positions,
          sequence_array(count,
                         [&](i64 row, i64 i) {
                             return std::min(call.start[static_cast<std::size_t>(row)] + i, positions_ - 1);
                         })},
         {value_name::start, row_array([&](std::size_t row) { return call.start[row]; })},
         {value_name::last, row_array([&](std::size_t row) { return std::max(call.given[row] - 1, 0); })}}};
    engine_.executor(call.program).run_until_decision([&](const Value& value, i64 microbatch, void* to) {
        fill_input(graph, value, batch, microbatch, to);
    });
}

Box Generator::part(std::size_t program, const Coordinates& at) const
{
    const Value& all = logits(program);
    return box_of(all.type.shape, all.sharding, engine_.program(program).sharded->mesh, at);
}

void Generator::copy_logits(std::size_t program, i64 first, std::span<double> to) const
{
    const Graph& graph = engine_.program(program).graph;
    const Value& own = graph[graph.outputs[0]];
    const std::byte* const data = engine_.executor(program).fetched_data(own.name);
    with_type(own.type.dtype, [&](auto t) {
        using T = decltype(t);
        const T* const from = reinterpret_cast<const T*>(data) + first;
        std::transform(from, from + to.size(), to.begin(),
                       [](T x) { return static_cast<double>(static_cast<kernels::Acc<T>>(x)); });
    });
}

void Generator::append_part(std::size_t program, std::span<const std::int32_t> tokens)
{
    const i64 count = queries(program);
    const auto rows = static_cast<std::size_t>(rows_);
    GeneratorCall call{program, std::vector<std::int32_t>(static_cast<std::size_t>(rows_ * count)),
                       std::vector<std::int32_t>(rows), std::vector<std::int32_t>(rows)};
    std::copy(tokens.begin(), tokens.end(), call.tokens.begin());
    call.start[0] = static_cast<std::int32_t>(length_);
    call.given[0] = static_cast<std::int32_t>(tokens.size());
    run(call);
    length_ += static_cast<i64>(tokens.size());
    logits_.resize(static_cast<std::size_t>(vocab()));
    copy_logits(program, 0, logits_);
}

std::span<const double> Generator::append(std::span<const std::int32_t> tokens)
{
    TRV_CHECK(!tokens.empty() && length_ + static_cast<i64>(tokens.size()) <= capacity_,
              "the KV cache has a capacity of ", capacity_);
    const i64 chunk = queries(prefill_program);
    while (!tokens.empty()) {
        // A padded chunk must fit in the cache too.
        const bool whole = tokens.size() > 1 && length_ + chunk <= capacity_;
        const auto part = tokens.first(whole ? std::min(tokens.size(), static_cast<std::size_t>(chunk)) : 1);
        append_part(whole ? prefill_program : decode_program, part);
        tokens = tokens.subspan(part.size());
    }
    return logits_;
}

} // namespace trivium
