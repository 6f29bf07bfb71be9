#include "ir/ops/op_reference.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"

namespace trivium {

namespace {

std::string result_types(const OpInfo& row)
{
    std::string text;
    for (const ResultType& type : row.results) {
        text += text.empty() ? "" : ", ";
        switch (type.of) {
        case ResultType::Of::operand: text += str("as operand ", type.operand); break;
        case ResultType::Of::accumulator: text += "accumulator"; break;
        case ResultType::Of::f64: text += "f64"; break;
        case ResultType::Of::i32: text += "i32"; break;
        case ResultType::Of::each: text += "as each operand"; break;
        case ResultType::Of::attribute: text += "`dtype`"; break;
        }
    }
    return text;
}

/// "axis tag rule (1) fp8?"
std::string attributes(const OpInfo& row)
{
    std::string text;
    const auto append = [&](Attr attr, const char* name) {
        if (row.takes(attr))
            text += str(text.empty() ? "" : " ", name, row.may_have.has(attr) ? "?" : "",
                        attr == Attr::rule && row.operands ? str(" (", *row.operands, ")") : "");
    };
    each_attribute([&](Attr attr, const char* name, auto) { append(attr, name); });
    for (const ListName& list : list_names)
        append(list.attr, list.name);
    return text;
}

std::string in_place(const OpInfo& row)
{
    std::string text = row.accumulates ? "adds into an accumulator" : "";
    for (const Alias& alias : row.in_place)
        text +=
            str(text.empty() ? "" : ", ", alias.must ? "always " : "", alias.result, " in ", alias.operand);
    return text;
}

const char* scratch(const OpInfo& row)
{
    static constexpr const char* names[] = {"", "product", "attention", "reduction", "exchange"};
    return names[static_cast<int>(row.scratch)];
}

} // namespace

std::string op_reference()
{
    std::string text =
        "# Ops\n\nGenerated from `src/ir/ops.inc` (`trivium explain --reference ops`); a test checks that it "
        "is up to date.\n\n"
        "The rule names a factor for each dimension of each operand and result (`src/ir/factors.hpp`). `*` "
        "is any\n"
        "number of dimensions, `.` a scalar. The factors after the bar must be replicated or, with `?`,\n"
        "are indexed; after the rule, how many of the last operands are optional. Attributes with `?` are "
        "optional; the number after `rule` is the number of operands. "
        "Sizes of factors that no operand has are attributes, too. \"In place\" lists which result may (or "
        "always must) use which operand's buffer.\n\n"
        "| op | rule | attributes | results | gradient | flops | in place | scratch "
        "|\n|---|---|---|---|---|---|---|---|\n";
    for (const std::string& name : op_names()) {
        const OpInfo& row = *find_op(name);
        std::string rule = row.rule      ? to_text(*row.rule)
                           : row.factors ? "by its attributes"
                                         : "the attribute `rule`";
        for (std::size_t at = 0; (at = rule.find('|', at)) != std::string::npos; at += 2)
            rule.insert(at, "\\");
        const std::string code =
            str(row.rule ? "`" + rule + "`" : rule, row.optional > 0 ? str(", ", row.optional, "?") : "");
        text += str("| ", name, " | ", code, " | ", attributes(row), " | ", result_types(row), " | ",
                    row.gradient ? "yes" : "", " | ", row.flops ? "counted" : "", " | ", in_place(row), " | ",
                    scratch(row), " |\n");
    }
    return text;
}

} // namespace trivium
