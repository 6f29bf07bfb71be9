// Calls, loops, branches, and shardings.
#include "stablehlo/importer.hpp"

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;

constexpr i64 max_rounds = 10'000;

void give_all(I& i, const HloOp& op, std::vector<HloValue> values)
{
    i.require(values.size() >= op.results.size(), op, "it has more results than it computes");
    for (std::size_t n = 0; n < op.results.size(); ++n) {
        i.require(values[n].type == i.result_type(op, n), op,
                  str("its result is ", to_string(i.result_type(op, n)), ", and computed as ",
                      to_string(values[n].type)));
        i.give(op, std::move(values[n]), n);
    }
}

void call(I& i, const HloOp& op)
{
    const HloAttribute* callee = op.attributes.find("callee");
    i.require(callee, op, "it names no function");
    give_all(i, op, i.call(op, callee->text, i.operands(op)));
}

/// A loop whose condition is known in each round is written out.
void while_loop(I& i, const HloOp& op)
{
    std::vector<HloValue> held = i.operands(op);
    for (i64 round = 0;; ++round) {
        const std::vector<HloValue> goes = i.run_region(op, i.region(op, 0), held);
        if (goes.size() != 1 || !goes[0].known || is_real(goes[0].type.element))
            i.refuse(op, "the number of its rounds depends on computed values",
                     "use a loop with a constant number of rounds (lax.scan, lax.fori_loop)");
        if (int_at(*goes[0].known, 0) == 0)
            break;
        if (round == max_rounds)
            i.refuse(op,
                     str("it has more than ", max_rounds, " rounds, which a graph would contain one by one"),
                     "use a loop with fewer rounds");
        held = i.run_region(op, i.region(op, 1), std::move(held));
        i.require(held.size() == op.operands.size(), op, "a round returns another number of values");
    }
    give_all(i, op, std::move(held));
}

/// Of a known index, that branch; otherwise all branches, and a choice among their results.
void branches(I& i, const HloOp& op)
{
    const bool truth = i.type(op, 0).element == HloElement::i1;
    const auto count = static_cast<i64>(op.regions.size());
    i.require(count > 0 && (!truth || count == 2), op, "it lacks a branch");
    // `if` has the branch of true first.
    const auto run = [&](i64 n) {
        return i.run_region(op, i.region(op, static_cast<std::size_t>(truth ? 1 - n : n)), {});
    };
    if (const auto index = i.known_int(op, 0))
        return give_all(i, op, run(*index >= 0 && *index < count ? *index : count - 1));
    const ValueId index = i.value(op, 0);
    std::vector<HloValue> chosen = run(count - 1);
    for (i64 n = count - 1; n-- > 0;) {
        std::vector<HloValue> others = run(n);
        i.require(others.size() == chosen.size(), op, "its branches return different numbers of values");
        const ValueId mine = i.compared(op, index, i.constant_like(op, index, static_cast<double>(n)), "eq");
        for (std::size_t r = 0; r < chosen.size(); ++r) {
            const Shape& shape = chosen[r].type.shape;
            i.require(others[r].type == chosen[r].type, op, "its branches return different types");
            const ValueId yes = i.value_of(others[r], op), no = i.value_of(chosen[r], op);
            chosen[r] = {chosen[r].type, {}, i.emit(op, K::select, {i.spread(op, mine, {}, shape), yes, no})};
        }
    }
    give_all(i, op, std::move(chosen));
}

/// The operand, with another sharding if `attributes` state one.
void constrain(I& i, const HloOp& op, const HloAttribute& attributes)
{
    const ValueId x = i.value(op, 0);
    const auto sharding = i.mesh().of(attributes, i.shape(op, 0).size(), i.place(op));
    if (!sharding)
        return i.give(op, x, 0, i.operand(op, 0).iota_dim);
    const ValueId y = i.emit(op, K::reshard, {x});
    i.graph()[y].sharding = *sharding;
    i.give(op, y, 0, i.operand(op, 0).iota_dim);
}

void sharding_constraint(I& i, const HloOp& op)
{
    const HloAttribute* given = op.attributes.find("sharding");
    if (!given)
        given = op.attributes.find("value");
    i.require(given, op, "it states no sharding");
    HloAttribute attributes;
    attributes.names = {"sdy.sharding"};
    attributes.items = {*given};
    constrain(i, op, attributes);
}

void custom_call(I& i, const HloOp& op)
{
    const HloAttribute* target = op.attributes.find("callee");
    if (!target)
        target = op.attributes.find("call_target_name");
    i.require(target, op, "it names no target");
    if (target->text != "Sharding")
        i.refuse(op, str("a graph has no custom call @", target->text));
    constrain(i, op, op.attributes);
}

void same(I& i, const HloOp& op) { give_all(i, op, i.operands(op)); }

} // namespace

void add_control(HloHandlers& all)
{
    all.insert({{"call", call},
                {"while", while_loop},
                {"case", branches},
                {"if", branches},
                {"sharding_constraint", sharding_constraint},
                {"custom_call", custom_call},
                {"optimization_barrier", same}});
}

} // namespace trivium
