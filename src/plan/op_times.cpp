#include "plan/op_times.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/ops/product_form.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <sstream>

namespace trivium {

OpKind priced_as(OpKind kind)
{
    return kind == OpKind::attention_step        ? OpKind::attention
           : kind == OpKind::attention_grad_step ? OpKind::attention_grad
                                                 : kind;
}

OpMeasure measure_of(const Graph& graph, const Op& op)
{
    const DType type = graph[op.operands[0]].type.dtype;
    OpMeasure m{str(info(priced_as(op.kind)).name, " ", name_of(type))};
    if (info(op).communicates) {
        m.size = m.work = static_cast<double>(bytes_sent(graph, op));
        m.kind += op.operands.size() > 1 ? " bucket" : "";
        return m;
    }
    const ScratchKind kind = info(op).scratch;
    if (kind != ScratchKind::product && kind != ScratchKind::attention) {
        m.size = m.work = static_cast<double>(bytes_of(graph, op));
        return m;
    }
    m.size = m.work = flops_of(graph, op);
    const auto elements = [&](ValueId v) { return static_cast<double>(graph[v].type.elements()); };
    if (kind == ScratchKind::attention) {
        const ValueId rows = op.operands[0];
        m.kind += " query";
        m.size = std::max(1.0, m.work * static_cast<double>(graph[rows].type.shape.back()) / elements(rows));
        return m;
    }
    if (op.operands.size() < 2)
        return m;
    if (op.attrs->fp8)
        m.kind += " fp8";
    // 2mnk FLOPs on mk + kn + mn elements
    m.size = 1.5 * m.work / (elements(op.operands[0]) + elements(op.operands[1]) + elements(op.results[0]));
    constexpr double thin = 64;
    if (op.attrs->rule && m.size < thin) { // bound by memory
        m.kind += " thin";
        m.size = m.work = static_cast<double>(bytes_of(graph, op));
    }
    if (const auto form = op.attrs->rule ? find_product_form(rule_of(graph, op)) : std::nullopt)
        m.form = form->trans_a ? " tn" : form->trans_b ? " nt" : " nn";
    return m;
}

OpTimes::OpTimes(const std::vector<std::string>& lines, const std::string& place)
{
    constexpr double most = 1e24;
    for (const std::string& line : lines) {
        std::istringstream words(line);
        std::string kind, word;
        std::vector<std::pair<double, double>> rates;
        while (words >> word) {
            const std::size_t colon = word.find(':');
            if (colon == std::string::npos && rates.empty()) {
                kind += (kind.empty() ? "" : " ") + word;
                continue;
            }
            double size = 0, rate = 0;
            char after = 0;
            if (std::sscanf(word.c_str(), "%lf:%lf%c", &size, &rate, &after) != 2 ||
                !(size >= 1 && size <= most && rate >= 1 && rate <= most) ||
                (!rates.empty() && size <= rates.back().first))
                throw UserError({place, str("'", word, "' in '", kind, " …' is not SIZE:RATE"),
                                 str("sizes ascend, and both are numbers from 1 to ", most),
                                 "measure the machine again with `trivium check --output`"});
            rates.emplace_back(size, rate);
        }
        if (kind.empty() || rates.empty())
            throw UserError({place, str("'", line, "' has no ", kind.empty() ? "op" : "rate"),
                             "a line is OP TYPE SIZE:RATE SIZE:RATE …",
                             "measure the machine again with `trivium check --output`"});
        if (!rates_.emplace(kind, std::move(rates)).second)
            throw UserError({place, str("has two lines for '", kind, "'"), "", "remove one of them"});
    }
}

std::optional<Seconds> OpTimes::seconds(const Graph& graph, const Op& op) const
{
    if (rates_.empty())
        return std::nullopt;
    const OpMeasure m = measure_of(graph, op);
    auto found = rates_.find(m.kind + m.form);
    for (const char* other : {" nn", " nt", " tn"}) // another form of a product is nearer than a formula
        if (found == rates_.end())
            found = rates_.find(m.kind + other);
    if (found == rates_.end())
        return std::nullopt;
    if (m.work <= 0)
        return 0;
    const auto& rates = found->second;
    const auto above = std::ranges::upper_bound(rates, m.size, {}, [](const auto& r) { return r.first; });
    if (above == rates.begin() || above == rates.end())
        return m.work / (above == rates.begin() ? rates.front() : rates.back()).second;
    const auto& [low, low_rate] = *std::prev(above);
    const auto& [high, high_rate] = *above;
    const double part = std::log(m.size / low) / std::log(high / low);
    return m.work / (low_rate * std::pow(high_rate / low_rate, part));
}

const OpTimes& op_times(const std::vector<std::string>& lines)
{
    thread_local std::vector<std::string> last;
    thread_local OpTimes times({});
    if (lines != last) {
        times = OpTimes(lines);
        last = lines;
    }
    return times;
}

std::vector<std::string> lines_of(const std::vector<OpSample>& samples)
{
    struct Sum {
        double logarithms = 0, work = 0; ///< of sizes, by their work
        Seconds seconds = 0;
    };
    std::map<std::string, std::map<i64, Sum>> kinds; // by half of the logarithm of the size
    for (const OpSample& s : samples)
        if (s.size > 0 && s.work > 0 && s.seconds > 0) {
            Sum& sum = kinds[s.kind][std::llround(2 * std::log2(s.size))];
            sum.logarithms += s.work * std::log(s.size);
            sum.work += s.work;
            sum.seconds += s.seconds;
        }
    std::vector<std::string> lines;
    for (const auto& [kind, sums] : kinds) {
        std::string line = kind;
        double before = 0;
        for (const auto& [bin, sum] : sums) {
            std::ostringstream size, rate;
            size << std::setprecision(4) << std::exp(sum.logarithms / sum.work);
            rate << std::setprecision(4) << sum.work / sum.seconds;
            if (const double printed = std::stod(size.str());
                printed > before) { // of neighbours that look alike, one
                line += str(" ", size.str(), ":", rate.str());
                before = printed;
            }
        }
        lines.push_back(line);
    }
    return lines;
}

} // namespace trivium
