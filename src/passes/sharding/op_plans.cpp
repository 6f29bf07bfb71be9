#include "passes/sharding/op_plans.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

bool read_in_boxes(const std::vector<OpOption>& options)
{
    return std::ranges::any_of(options, [](const OpOption& option) {
        return std::ranges::any_of(option.needs, [](const Need& need) { return need.boxes >= 0; });
    });
}

} // namespace

OpPlans::OpPlans(const Graph& graph, const PartitionConfig& config, std::vector<bool> sums)
    : g_(graph), once_(config.once), parts_(graph, any_composed(graph)), prices_(graph, parts_, config),
      stage_axis_(config.stage_axis), sums_(std::move(sums)), homes_(graph.values.size(), -1),
      ops_(graph.ops.size())
{
    for (const Value& v : g_.values)
        for (const DimSharding& dim : v.sharding->dims) {
            const PartList axes = parts_.parts_of(dim.axes);
            for (std::size_t i = 0; i < axes.size(); ++i)
                for (std::size_t j = i + 1; j < axes.size(); ++j)
                    orders_.emplace(axes[i], axes[j]);
        }
}

bool OpPlans::plain(const Op& op) const
{
    const OpInfo& row = info(op);
    return !row.placement && !row.contributes && !row.communicates && !row.manual && !op.accumulate &&
           op.region == Region::microbatch &&
           std::ranges::all_of(op.results, [&](ValueId v) { return g_[v].sharding->partial.empty(); }) &&
           row.in_place.size() == static_cast<std::size_t>(std::ranges::count_if(
                                      row.in_place, [](const Alias& a) { return !a.must; }));
}

std::size_t OpPlans::result_of(ValueId v) const
{
    const Op& op = g_[g_[v].producer];
    return static_cast<std::size_t>(std::ranges::find(op.results, v) - op.results.begin());
}

OpOption OpPlans::option_of(std::size_t o, Assignment assignment)
{
    const OpSharding& sharding = *ops_[o].sharding;
    const Op& op = g_.ops[o];
    OpOption made{std::move(assignment), {}, {}, 0, false};
    for (std::size_t i = 0; i < sharding.rule().operands.size(); ++i) {
        Need need{prices_.number({sharding.operand_axes(i, made.assignment), {}}), false, -1};
        if (sharding.irregular_operand(i, made.assignment)) {
            Assignment seen; // by the operand: other factors do not change its boxes
            for (const int dim : sharding.rule().operands[i])
                for (const int f : sharding.rule().parts_of(dim))
                    seen.push_back(made.assignment[static_cast<std::size_t>(f)]);
            const auto [at, added] =
                box_numbers_.try_emplace({o, i, std::move(seen)}, static_cast<int>(boxes_.size()));
            if (added)
                boxes_.push_back({o, i, made.assignment});
            need.boxes = at->second;
        }
        made.needs.push_back(need);
    }
    for (std::size_t r = 0; r < op.results.size(); ++r) {
        made.made.push_back(prices_.number(sharding.result_layout(r, made.assignment)));
        if (sharding.irregular_result(r, made.assignment))
            made.own += prices_.pricing().bytes_exchanged(sharding, r, made.assignment, g_[op.results[r]]);
    }
    if (op.stays_partial) // of low rank
        return made;
    made.own += std::max(0., prices_.pricing().work(op, sharding, made.assignment) - ops_[o].least_work);
    return made;
}

std::string OpPlans::key_of(std::size_t o) const
{
    const Op& op = g_.ops[o];
    std::string key{static_cast<char>(op.kind), op.accumulate ? 'a' : '-'};
    const auto add = [&](ValueId v) {
        const Value& value = g_[v];
        (key += static_cast<char>(value.type.dtype)) += value.role == Role::carry ? 'c' : '-';
        (key += outlives_microbatch(g_, v) ? 'l' : '-') += sums_[v.index()] ? 's' : '-';
        for (const i64 extent : value.type.shape)
            (key += std::to_string(extent)) += ',';
        append_text(key, Layout{dim_axes(value.sharding), value.sharding->partial});
        for (const PartId part : parts_.manual(v))
            (key += std::to_string(part)) += ',';
        key += '\n';
    };
    std::ranges::for_each(op.operands, add);
    key += "->";
    std::ranges::for_each(op.results, add);
    return key;
}

OpPlans::Model& OpPlans::model_of(std::size_t o)
{
    std::deque<Model>& models = models_[key_of(o)];
    for (Model& model : models)
        if (model.op == o || (!model.boxes && g_.ops[model.op].attrs == g_.ops[o].attrs))
            return model;
    Model& model = models.emplace_back();
    model.op = o;
    const std::vector<Assignment> assignments = ops_[o].sharding->assignments();
    for (const Assignment& assignment : assignments) {
        const double work = prices_.pricing().work(g_.ops[o], *ops_[o].sharding, assignment);
        model.plan.least_work = &assignment == &assignments[0] ? work : std::min(model.plan.least_work, work);
    }
    ops_[o].least_work = model.plan.least_work;
    double least = 0;
    for (const Assignment& assignment : assignments) {
        const OpOption& option = model.plan.options.emplace_back(option_of(o, assignment));
        const double price = alone(o, option);
        if (model.plan.options.size() == 1 || price < least) {
            least = price;
            model.plan.chosen = model.plan.options.size() - 1;
        }
    }
    model.boxes = read_in_boxes(model.plan.options);
    return model;
}

OpPlan& OpPlans::of(std::size_t o)
{
    OpPlan& made = ops_[o];
    if (made.sharding)
        return made;
    made.sharding = std::make_unique<OpSharding>(g_, g_.ops[o], parts_, stage_axis_);
    const OpPlan& plan = model_of(o).plan;
    made.options = plan.options;
    made.chosen = plan.chosen;
    made.least_work = plan.least_work;
    return made;
}

double OpPlans::bytes(int from, const Need& need, ValueId v)
{
    if (need.pending)
        return 0;
    if (from < 0)
        return impossible_cost;
    const double rate = outlives_microbatch(g_, v) && !once_ ? 1e9 : 1; // it would move in every microbatch
    if (need.boxes < 0)
        return rate * bytes(from, need.layout, v);
    const auto [at, added] = approaches_.try_emplace({from, need.boxes}, 0.0);
    if (added) {
        const Boxes& special = boxes_[static_cast<std::size_t>(need.boxes)];
        at->second = prices_.pricing()
                         .approach(*ops_[special.op].sharding, special.operand, special.assignment,
                                   prices_.layout(from), g_[v])
                         .bytes;
    }
    return rate * with_latency(at->second, v);
}

/// What an op moves if every tensor is at home: the choice of the op alone.
double OpPlans::alone(std::size_t o, const OpOption& option)
{
    const Op& op = g_.ops[o];
    double all = option.own;
    for (std::size_t i = 0; i < option.needs.size(); ++i)
        all += bytes(home(op.operands[i]), option.needs[i], op.operands[i]);
    for (std::size_t r = 0; r < op.results.size(); ++r)
        all += bytes(option.made[r], home(op.results[r]), op.results[r]);
    return all;
}

std::vector<OpOption> OpPlans::wide_options(std::size_t o, std::size_t most)
{
    const Assignment before = chosen(o).assignment;
    std::vector<OpOption> all;
    for (Assignment& assignment : ops_[o].sharding->all_assignments(most))
        all.push_back(option_of(o, std::move(assignment)));
    if (all.size() > most) { // the cheapest for the op alone
        std::vector<std::pair<double, std::size_t>> price;
        for (std::size_t a = 0; a < all.size(); ++a)
            price.emplace_back(all[a].assignment == before ? -1 : alone(o, all[a]), a);
        std::ranges::sort(price);
        std::vector<OpOption> best;
        for (std::size_t a = 0; a < most; ++a)
            best.push_back(std::move(all[price[a].second]));
        all = std::move(best);
    }
    add_orders(o, most, all);
    return all;
}

void OpPlans::widen(std::size_t o, std::size_t most)
{
    OpPlan& p = of(o);
    const Assignment before = p.options[p.chosen].assignment;
    Model& model = model_of(o);
    if (!model.wide) {
        model.wide = wide_options(o, most);
        model.boxes = model.boxes || read_in_boxes(*model.wide);
    }
    std::vector<OpOption> all = *model.wide;
    add_pending(o, all);
    p.options.clear();
    // Of those that differ in nothing that others see, the cheapest.
    std::map<std::pair<std::vector<Need>, std::vector<int>>, std::size_t> known;
    p.chosen = 0;
    for (OpOption& option : all) {
        const bool start = option.assignment == before && !option.pending;
        const auto [at, added] = known.try_emplace({option.needs, option.made}, p.options.size());
        if (start)
            p.chosen = at->second;
        if (added)
            p.options.push_back(std::move(option));
        else if (option.own < p.options[at->second].own)
            p.options[at->second] = std::move(option);
    }
    // The partitioner leaves sums open where it can.
    const Op& op = g_.ops[o];
    for (std::size_t a = 0; a < p.options.size(); ++a) {
        bool open = p.options[a].pending;
        for (std::size_t i = 0; i < op.operands.size() && open; ++i) {
            const ValueId v = op.operands[i];
            if (p.options[a].needs[i].pending)
                open = chosen(g_[v].producer.index()).made[result_of(v)] == p.options[a].needs[i].layout;
        }
        if (open)
            p.chosen = a;
    }
}

void OpPlans::add_orders(std::size_t o, std::size_t most, std::vector<OpOption>& all)
{
    for (std::size_t a = 0; a < all.size() && all.size() < most; ++a)
        for (std::size_t f = 0; f < all[a].assignment.size(); ++f) {
            const PartList now = all[a].assignment[f];
            PartList order = now;
            std::ranges::sort(order);
            do {
                bool known = order != now;
                for (std::size_t i = 0; i < order.size() && known; ++i)
                    for (std::size_t j = i + 1; j < order.size(); ++j)
                        known = known && orders_.count({order[i], order[j]}) > 0;
                if (!known)
                    continue;
                Assignment other = all[a].assignment;
                other[f] = order;
                if (std::ranges::none_of(all,
                                         [&](const OpOption& option) { return option.assignment == other; }))
                    all.push_back(option_of(o, std::move(other)));
            } while (std::next_permutation(order.begin(), order.end()));
        }
}

/// An op may run on partial sums of the operands in which it is linear: those that the first one's producer
/// may make.
void OpPlans::add_pending(std::size_t o, std::vector<OpOption>& all)
{
    const Op& op = g_.ops[o];
    const OpPlan& p = ops_[o];
    const OperandSet open = linear_operands(g_, op);
    if (open == 0 || op.operands.empty())
        return;
    const std::size_t one = first_operand(open);
    i64 before = 0, after = 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const ValueId v = op.operands[i];
        if (!has_operand(open, i))
            continue;
        before += g_[v].type.elements();
        const OpId producer = g_[v].producer;
        if (!producer || !plain(g_[producer]) || g_[producer].block != op.block ||
            g_[producer].phase != op.phase)
            return;
    }
    for (const ValueId v : op.results)
        after += g_[v].type.elements();
    if (after > before && !op.stays_partial) // that would make the partial tensor larger
        return;
    std::set<int> layouts;
    const ValueId first = op.operands[one];
    for (const OpOption& option : of(g_[first].producer.index()).options)
        layouts.insert(option.made[result_of(first)]);
    for (const int number : layouts) {
        const Layout layout = prices_.layout(number);
        if (layout.partial.empty() || std::ranges::any_of(layout.partial, [](const Partial& partial) {
                return partial.combine != Combine::sum;
            }))
            continue;
        const std::optional<Assignment> like = p.sharding->assignment_like(one, layout.axes);
        if (!like)
            continue;
        OpOption option = option_of(o, *like);
        option.pending = true;
        for (std::size_t i = 0; i < option.needs.size(); ++i)
            if (has_operand(open, i))
                option.needs[i] = {number, true, -1};
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            Layout made = p.sharding->result_layout(r, *like);
            made.add(layout.partial);
            option.made[r] = prices_.number(made);
        }
        all.push_back(std::move(option));
    }
}

} // namespace trivium
