#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"

namespace trivium::jinja {

using Kind = Expression::Kind;

Value Evaluator::variable(const std::string& name) const
{
    for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get())
        for (const auto& [known, value] : scope->values)
            if (known == name)
                return value;
    for (const auto& [known, value] : variables_)
        if (known == name)
            return value;
    if (const Value* function = find_function(name))
        return *function;
    return Value::undefined(str("'", name, "' is undefined"));
}

Value Evaluator::evaluate(const Expression& expression)
{
    spend();
    line_ = expression.line;
    if (expression.kind == Kind::constant)
        return expression.value;
    if (expression.kind == Kind::name)
        return variable(expression.text);
    struct Level {
        explicit Level(int& levels) : levels_(levels)
        {
            if (levels_ >= max_nesting)
                throw Failure{"nests too deeply (a macro that calls itself without end?)"};
            ++levels_;
        }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        ~Level() { --levels_; }
        int& levels_;
    } const level(nesting_);
    return evaluate_parts(expression);
}

Value Evaluator::evaluate_parts(const Expression& expression)
{
    const auto part = [&](std::size_t i) {
        const Expression* const chosen = expression.parts[i].get();
        return chosen == nullptr ? Value() : evaluate(*chosen);
    };
    const auto all_parts = [&] {
        std::vector<Value> values;
        for (std::size_t i = 0; i < expression.parts.size(); ++i)
            values.push_back(part(i));
        return values;
    };
    switch (expression.kind) {
    case Kind::list: return make_list(all_parts());
    case Kind::tuple: return make_list(all_parts(), List::Kind::tuple);
    case Kind::dict: {
        std::vector<std::pair<Value, Value>> items;
        for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
            Value key = part(i);
            items.emplace_back(std::move(key), part(i + 1));
        }
        return make_dict(std::move(items));
    }
    case Kind::attribute: return attribute_of(part(0), expression.text);
    case Kind::item: {
        const Value of = part(0);
        return item_of(of, part(1));
    }
    case Kind::slice: {
        const Value of = part(0), from = part(1), to = part(2);
        return slice_of(of, from, to, part(3));
    }
    case Kind::call: return called(expression, {});
    case Kind::filter: {
        const Value input = part(0);
        line_ = expression.line;
        return filtered(expression.text, input, evaluated(expression.arguments));
    }
    case Kind::test: {
        const Value value = part(0);
        return is_so(expression.text, value, evaluated(expression.arguments));
    }
    case Kind::negate: return !truth(part(0));
    case Kind::minus: return negative(part(0));
    case Kind::binary: return binary(expression);
    case Kind::choose:
        if (truth(part(0)))
            return part(1);
        if (expression.parts[2] != nullptr)
            return part(2);
        return Value::undefined(str("the inline if-expression on line ", expression.line,
                                    " evaluated to false and no else section was defined."));
    case Kind::constant:
    case Kind::name: break;
    }
    return {};
}

Value Evaluator::called(const Expression& call, std::vector<std::pair<std::string, Value>> more)
{
    const Value callee = evaluate(*call.parts[0]);
    Arguments arguments = evaluated(call.arguments);
    arguments.named.insert(arguments.named.end(), more.begin(), more.end());
    require_defined(callee);
    if (callee.object() == nullptr)
        throw Failure{str("'", callee.type_name(), "' object is not callable")};
    return callee.object()->call(*this, arguments);
}

Value Evaluator::binary(const Expression& expression)
{
    const std::string& op = expression.text;
    const Value left = evaluate(*expression.parts[0]);
    if ((op == "and" && !truth(left)) || (op == "or" && truth(left)))
        return left;
    const Value right = evaluate(*expression.parts[1]);
    if (op == "and" || op == "or")
        return right;
    if (op == "~") {
        MarkedText text = to_text(left);
        text.append(to_text(right));
        return text;
    }
    static constexpr std::string_view operators = "+-*//%";
    return operators.find(op) != std::string_view::npos ? arithmetic(op, left, right)
                                                        : Value(compared(op, left, right));
}

Value Evaluator::filtered(const std::string& name, const Value& input, const Arguments& arguments)
{
    const Filter filter = find_filter(name);
    if (filter == nullptr)
        throw Failure{str("the filter '", name, "' is not supported")};
    return filter(*this, input, arguments);
}

Arguments Evaluator::evaluated(const CallArguments& arguments)
{
    Arguments result;
    for (const ExpressionPtr& argument : arguments.positional)
        result.positional.push_back(evaluate(*argument));
    for (const auto& [name, argument] : arguments.named)
        result.named.emplace_back(name, evaluate(*argument));
    return result;
}

} // namespace trivium::jinja
