#include "ir/gradients.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

namespace trivium::gradients {

namespace {

const TensorType& type_of(Tape& t, ValueId id) { return t.build().graph()[id].type; }

} // namespace

// C = A B: dA = dC B', dB = A' dC, written as rules with the parts swapped. In FP8 dC has the format of wider
// range.
void matmul(Tape& t)
{
    const auto attrs = [&](int which) {
        Attrs all{{"rule", product_gradient_rule(text_attr(t.op().attrs, "rule"), which)}};
        if (has_attr(t.op().attrs, "fp8"))
            all.emplace_back("fp8", std::string(which == 1 ? "e4m3 e5m2" : "e5m2 e4m3"));
        return all;
    };
    const ValueId dc = t.grad(0);
    // The weight's gradient first: it reads the same dC, and adds into its accumulator.
    if (t.wanted(1))
        t.give(1, t.build().op1(OpKind::matmul, {t.operand(0), dc}, attrs(1)));
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::matmul, {dc, t.operand(1)}, attrs(0)));
}

void embedding(Tape& t)
{
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::embedding_grad, {t.grad(0), t.operand(1)},
                                {{"v", type_of(t, t.operand(0)).shape[0]}}));
}

void rms_norm(Tape& t)
{
    const ValueId dy = t.grad(0), x = t.operand(0), w = t.operand(1), rstd = t.result(1);
    TRV_CHECK(!t.grad(1), "rms_norm's rstd has no gradient");
    if (t.wanted(1))
        t.give(1, t.build().op1(OpKind::rms_norm_grad_w, {dy, x, rstd}));
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::rms_norm_grad_x, {dy, x, w, rstd}));
}

void layer_norm(Tape& t)
{
    const ValueId dy = t.grad(0), x = t.operand(0), w = t.operand(1), mean = t.result(1), rstd = t.result(2);
    TRV_CHECK(!t.grad(1) && !t.grad(2), "layer_norm's statistics have no gradient");
    if (t.wanted(1))
        t.give(1, t.build().op1(OpKind::layer_norm_grad_w, {dy, x, mean, rstd}));
    if (t.wanted(2))
        t.give(2, t.build().op1(OpKind::reduce_sum, {dy}, {{"rule", std::string("* d -> d")}}));
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::layer_norm_grad_x, {dy, x, w, mean, rstd}));
}

void rope(Tape& t)
{
    if (t.wanted(0)) // a rotation's transpose turns the other way
        t.give(0, t.build().op1(OpKind::rope_grad, {t.grad(0), t.operand(1), t.operand(2)}));
}

void attention(Tape& t)
{
    TRV_CHECK(!t.grad(1), "attention's log-sum-exp has no gradient");
    const std::vector<ValueId> d = t.build().op(
        OpKind::attention_grad,
        {t.grad(0), t.operand(0), t.operand(1), t.operand(2), t.result(0), t.result(1)}, t.op().attrs);
    for (int i = 0; i < 3; ++i)
        if (t.wanted(i))
            t.give(i, d[static_cast<std::size_t>(i)]);
}

void swiglu(Tape& t)
{
    const std::vector<ValueId> d = t.build().op(OpKind::swiglu_grad, {t.grad(0), t.operand(0), t.operand(1)});
    for (int i = 0; i < 2; ++i)
        if (t.wanted(i))
            t.give(i, d[static_cast<std::size_t>(i)]);
}

void gelu(Tape& t)
{
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::gelu_grad, {t.grad(0), t.operand(0)}));
}

void add(Tape& t)
{
    for (int i = 0; i < 2; ++i)
        if (t.wanted(i))
            t.give(i, t.grad(0));
}

void bias_add(Tape& t)
{
    if (t.wanted(1)) {
        const std::string rule = text_attr(t.op().attrs, "rule"); // "X, b -> X"
        const auto comma = rule.find(','), arrow = rule.find("->");
        const std::string reduce = rule.substr(0, comma) + " ->" + rule.substr(comma + 1, arrow - comma - 2);
        t.give(1, t.build().op1(OpKind::reduce_sum, {t.grad(0)}, {{"rule", reduce}}));
    }
    if (t.wanted(0))
        t.give(0, t.grad(0));
}

void cast(Tape& t)
{
    if (t.wanted(0))
        t.give(0, t.build().cast_to(t.grad(0), type_of(t, t.operand(0)).dtype));
}

void reshard(Tape& t)
{
    if (t.wanted(0))
        t.give(0, t.grad(0));
}

void xent_stats(Tape& t)
{
    TRV_CHECK(t.grad(0) && t.grad(1), "both results of xent_stats feed the loss");
    if (t.wanted(0))
        t.give(0, t.build().op1(OpKind::xent_stats_grad,
                                {t.operand(0), t.operand(1), t.result(0), t.grad(0), t.grad(1)}));
}

void token_loss(Tape& t)
{
    const std::vector<ValueId> d = t.build().op(OpKind::token_loss_grad, {t.grad(0), t.operand(2)});
    for (int i = 0; i < 2; ++i)
        if (t.wanted(i))
            t.give(i, d[static_cast<std::size_t>(i)]);
}

} // namespace trivium::gradients
