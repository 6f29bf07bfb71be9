#include "train/generator.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

Generator::Generator(Engine& engine) : engine_(engine)
{
    const Graph& graph = engine.program(prefill_program).graph;
    chunk_ = graph[graph.find(value_name::tokens)].type.shape[1];
    capacity_ = graph[graph.with_role(Role::state)[0]].type.shape[1];
    const ValueId table = graph.find("positions.weight");
    positions_ = table ? graph[table].type.shape[0] : capacity_;
    logits_.resize(static_cast<std::size_t>(graph[graph.outputs[0]].type.elements()));
}

void Generator::run(std::size_t program, std::span<const std::int32_t> tokens)
{
    Executor& executor = engine_.executor(program);
    const Graph& graph = engine_.program(program).graph;
    const i64 given = static_cast<i64>(tokens.size()), count = program == prefill_program ? chunk_ : 1;
    // Padding follows the tokens; later calls overwrite it.
    const auto token = [&](i64, i64 i) { return i < given ? tokens[static_cast<std::size_t>(i)] : 0; };
    const auto position = [&](i64, i64 i) { return std::min(length_ + i, positions_ - 1); };
    const Batch batch{{{value_name::tokens, sequence_array(count, token)},
                       {value_name::positions, sequence_array(count, position)}}};
    executor.run_until_decision([&](const Value& value, i64 microbatch, void* to) {
        if (value.role == Role::input)
            fill_input(graph, value, batch, microbatch, to);
        else
            *static_cast<std::int32_t*>(to) =
                static_cast<std::int32_t>(value.name == value_name::start ? length_ : given - 1);
    });
    length_ += given;
    for (std::size_t i = 0; i < logits_.size(); ++i)
        logits_[i] = static_cast<float>(executor.fetched(graph[graph.outputs[0]].name, static_cast<i64>(i)));
}

std::span<const float> Generator::append(std::span<const std::int32_t> tokens)
{
    TRV_CHECK(!tokens.empty() && length_ + static_cast<i64>(tokens.size()) <= capacity_,
              "the KV cache has a capacity of ", capacity_);
    while (!tokens.empty()) {
        // A padded chunk must fit in the cache too.
        if (tokens.size() > 1 && length_ + chunk_ <= capacity_) {
            const auto part = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(chunk_)));
            run(prefill_program, part);
            tokens = tokens.subspan(part.size());
        } else {
            run(decode_program, tokens.first(1));
            tokens = tokens.subspan(1);
        }
    }
    return logits_;
}

} // namespace trivium
