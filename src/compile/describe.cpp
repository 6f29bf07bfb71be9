#include "compile/describe.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/rank_list.hpp"
#include "config/trained_parameters.hpp"

namespace trivium {

std::string describe_size(const RunConfig& config)
{
    const ModelConfig& m = config.model;
    const auto number = [](i64 count) { return format_si(static_cast<double>(count)); };
    const ParameterCounts counts = parameter_counts(config);
    return str(number(counts.all), " parameters",
               m.experts > 0 ? str(" (", number(active_parameter_count(m)), " per token)") : "",
               counts.trained < counts.all ? str(", ", number(counts.trained), " trained") : "");
}

std::string describe_experts(const ModelConfig& m)
{
    if (m.experts == 0)
        return "";
    return str(", ", counted(m.experts, "expert"), " of width ", m.expert_dim, ", ", m.expert_slots,
               " per token");
}

std::string describe_model(const RunConfig& config)
{
    const ModelConfig& m = config.model;
    if (m.is_program())
        return str(describe_size(config), ": ", m.file, ", ", counted(m.program.blocks, "block"), ", ",
                   name_of(config.train.precision));
    return str(describe_size(config), ": ", name_of(m.family), ", ", counted(m.layers, "layer"), ", dim ",
               m.dim, ", ", counted(m.heads, "head"), " (", m.kv_heads, " key-value)", describe_experts(m),
               ", vocab ", m.vocab, ", seq ", m.seq, ", ", name_of(config.train.precision));
}

std::string describe_grid(const ParallelConfig& p)
{
    return str(describe_degrees(p), p.context_heads > 1 ? str(" (", p.context_heads, " by heads)") : "",
               p.expert > 1 ? str(", ", p.expert, " share experts") : "",
               p.pipeline > 1 ? str(", ", p.schedule, p.chunks > 1 ? str(" of ", p.chunks, " chunks") : "")
                              : "",
               zero_ranks(p) > 1 ? str(", zero ", p.zero) : "",
               shards_in_groups(p) ? str(" in groups of ", p.shard) : "",
               p.tensor > 1 && p.sequence ? ", sequence parallel" : "");
}

std::string describe_choices(const ParallelConfig& p)
{
    std::string text;
    const auto add = [&](bool matters, const std::string& part) {
        if (matters)
            text += (text.empty() ? "" : ", ") + part;
    };
    add(block_ranks(p) > 1 && p.context_form == ContextForm::gather, "keys and values gathered");
    add(block_ranks(p) > 1 && p.context_form == ContextForm::ring, "keys and values in a ring");
    add(shard_ranks(p) > 1 && p.zero == 3, str("parameters gathered every ", name_of(p.gather_every)));
    add(shard_ranks(p) > 1 && p.zero >= 2, str("gradients reduced every ", name_of(p.reduce_every)));
    add(!p.schedule_near.empty() && p.pipeline > 1, "schedule found from " + p.schedule_near);
    add(gradient_ranks(p) > 1, str("buckets by ", p.bucket == "none" ? "tensor" : p.bucket));
    const bool some = p.recompute_layers > 0;
    add(p.recompute != Recompute::none,
        str("recompute ", name_of(p.recompute), some ? str(" in ", counted(p.recompute_layers, "layer")) : "",
            some && p.recompute == Recompute::full ? ", selective in the others" : ""));
    return text;
}

std::string blocks_of_rank(const ModelConfig& model, const std::vector<int>& rank_of_block, i64 rank)
{
    if (model.is_program()) {
        std::vector<int> blocks;
        for (std::size_t block = 0; block < rank_of_block.size(); ++block)
            if (rank_of_block[block] == rank)
                blocks.push_back(static_cast<int>(block));
        std::string list = print_ranks(blocks); // "ranks 0-3"
        return (blocks.size() == 1 ? "block" : "blocks") + list.substr(list.find(' '));
    }
    const std::size_t head = rank_of_block.size() - 1;
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    if (rank_of_block.front() == rank)
        add("embedding");
    for (std::size_t block = 1; block < head; ++block) {
        const std::size_t first = block;
        while (block < head && rank_of_block[block] == rank)
            ++block;
        if (block > first)
            add(block - first == 1 ? str("layer ", first - 1) : str("layers ", first - 1, "-", block - 2));
    }
    if (rank_of_block.back() == rank)
        add("head");
    return text;
}

} // namespace trivium
