#include "io/chat/jinja/evaluator.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/objects.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>

namespace trivium::jinja {

void Scope::set(const std::string& name, Value value)
{
    for (auto& [known, old] : values) {
        if (known == name) {
            old = std::move(value);
            return;
        }
    }
    values.emplace_back(name, std::move(value));
}

/// Enters a scope within `outer`. Its variables are dropped at its end, also those that refer to it (macros).
class Evaluator::Enter {
public:
    Enter(Evaluator& evaluator, std::shared_ptr<Scope> outer)
        : evaluator_(evaluator), before_(evaluator.scope_)
    {
        if (++evaluator.nesting_ > max_nesting) {
            --evaluator.nesting_;
            throw Failure{"nests too deeply (a macro that calls itself without end?)"};
        }
        evaluator.scope_ = std::make_shared<Scope>();
        evaluator.scope_->outer = std::move(outer);
    }
    explicit Enter(Evaluator& evaluator) : Enter(evaluator, evaluator.scope_) {}
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;
    ~Enter()
    {
        evaluator_.scope_->values.clear();
        evaluator_.scope_ = std::move(before_);
        --evaluator_.nesting_;
    }

private:
    Evaluator& evaluator_;
    std::shared_ptr<Scope> before_;
};

Evaluator::Evaluator(const Variables& variables, std::time_t now)
    : variables_(variables), now_(now), scope_(std::make_shared<Scope>())
{
}

Evaluator::~Evaluator()
{
    scope_->values.clear();
    for (const std::shared_ptr<Object>& object : kept_)
        object->clear();
}

MarkedText Evaluator::run(const Syntax& syntax)
{
    MarkedText out;
    out_ = &out;
    run(syntax.block);
    return out;
}

Evaluator::Flow Evaluator::run(const Block& block)
{
    for (const Statement& statement : block)
        if (const Flow flow = run(statement); flow != Flow::onward)
            return flow;
    return Flow::onward;
}

Evaluator::Flow Evaluator::run(const Statement& statement)
{
    spend();
    line_ = statement.line;
    switch (statement.kind) {
    case Statement::Kind::data: out_->append(std::string_view(statement.text)); break;
    case Statement::Kind::print:
        for (const ExpressionPtr& expression : statement.expressions)
            print(evaluate(*expression));
        break;
    case Statement::Kind::branch: return run_branch(statement);
    case Statement::Kind::loop: return run_loop(statement, evaluate(*statement.expressions[0]), 0);
    case Statement::Kind::assign: assign(statement.target, evaluate(*statement.expressions[0])); break;
    case Statement::Kind::capture: {
        Value text(printed(statement.blocks[0]));
        if (statement.expressions[0] != nullptr)
            text = filtered(*statement.expressions[0], text);
        assign(statement.target, text);
        break;
    }
    case Statement::Kind::macro: define_macro(statement); break;
    case Statement::Kind::call: run_call(statement); break;
    case Statement::Kind::filter:
        print(filtered(*statement.expressions[0], Value(printed(statement.blocks[0]))));
        break;
    case Statement::Kind::with: {
        std::vector<Value> values;
        for (const Parameter& parameter : statement.parameters)
            values.push_back(evaluate(*parameter.by_default));
        const Enter enter(*this);
        for (std::size_t i = 0; i < values.size(); ++i)
            scope_->set(statement.parameters[i].name, std::move(values[i]));
        return run(statement.blocks[0]);
    }
    case Statement::Kind::generation: run_generation(statement); break;
    case Statement::Kind::scope: {
        const Enter enter(*this);
        run(statement.blocks[0]);
        break;
    }
    case Statement::Kind::stop: return Flow::stop;
    case Statement::Kind::next: return Flow::next;
    }
    return Flow::onward;
}

Evaluator::Flow Evaluator::run_branch(const Statement& statement)
{
    for (std::size_t i = 0; i < statement.expressions.size(); ++i)
        if (truth(evaluate(*statement.expressions[i])))
            return run(statement.blocks[i]);
    return statement.blocks.size() > statement.expressions.size() ? run(statement.blocks.back())
                                                                  : Flow::onward;
}

Evaluator::Flow Evaluator::run_loop(const Statement& statement, const Value& over, int depth)
{
    std::vector<Value> items = elements(over);
    if (const Expression* condition = statement.expressions[1].get()) {
        std::vector<Value> chosen;
        for (Value& item : items) {
            const Enter enter(*this);
            assign(statement.target, item);
            if (truth(evaluate(*condition)))
                chosen.push_back(std::move(item));
        }
        items = std::move(chosen);
    }
    if (items.empty()) {
        if (statement.blocks.size() < 2)
            return Flow::onward;
        const Enter enter(*this);
        return run(statement.blocks[1]);
    }
    const auto loop = std::make_shared<Loop>(std::move(items), statement, scope_, depth);
    for (const Value& item : loop->items()) {
        spend();
        const Enter enter(*this);
        scope_->set("loop", Value(std::shared_ptr<Object>(loop)));
        assign(statement.target, item);
        const std::size_t begin = out_->size();
        const Flow flow = run(statement.blocks[0]);
        if (const Dict* dict = item.dict(); dict != nullptr && dict->message >= 0)
            out_->mark(begin, out_->size(), Mark::Kind::turn, dict->message);
        if (flow == Flow::stop)
            break;
        ++loop->index;
    }
    return Flow::onward;
}

MarkedText Evaluator::run_loop_again(const Statement& loop, const std::shared_ptr<Scope>& around,
                                     const Value& items, int depth)
{
    const int line = line_;
    const Enter enter(*this, around);
    MarkedText text, *const out = std::exchange(out_, &text);
    run_loop(loop, items, depth);
    out_ = out;
    line_ = line;
    return text;
}

MarkedText Evaluator::printed(const Block& block)
{
    const Enter enter(*this);
    MarkedText text, *const out = std::exchange(out_, &text);
    run(block);
    out_ = out;
    return text;
}

void Evaluator::run_generation(const Statement& statement)
{
    const MarkedText text = printed(statement.blocks[0]);
    const std::size_t begin = out_->size();
    out_->append(text);
    out_->mark(begin, out_->size(), Mark::Kind::generation, 0);
}

void Evaluator::print(const Value& value) { out_->append(to_text(value)); }

void Evaluator::define_macro(const Statement& statement)
{
    scope_->set(statement.text, Value(std::shared_ptr<Object>(std::make_shared<Macro>(statement, scope_))));
}

void Evaluator::run_call(const Statement& statement)
{
    const Expression& call = *statement.expressions[0];
    const Value callee = evaluate(*call.parts[0]);
    Arguments arguments = evaluated(call.arguments);
    arguments.named.emplace_back("caller",
                                 Value(std::shared_ptr<Object>(std::make_shared<Macro>(statement, scope_))));
    print(called(callee, arguments));
}

Value Evaluator::run_macro(const Statement& macro, const std::shared_ptr<Scope>& around,
                           const Arguments& arguments)
{
    const int line = line_;
    const Enter enter(*this, around);
    const std::size_t given = std::min(arguments.positional.size(), macro.parameters.size());
    std::vector<Value> more;
    for (std::size_t i = given; i < arguments.positional.size(); ++i)
        more.push_back(arguments.positional[i]);
    if (!more.empty() && !macro.takes_more)
        throw Failure{
            str("macro '", macro.text, "' takes not more than ", macro.parameters.size(), " argument(s)")};
    for (std::size_t i = 0; i < given; ++i)
        scope_->set(macro.parameters[i].name, arguments.positional[i]);
    std::vector<std::pair<Value, Value>> named;
    std::vector<bool> bound(macro.parameters.size());
    for (const auto& [name, value] : arguments.named) {
        const auto at =
            std::find_if(macro.parameters.begin(), macro.parameters.end(),
                         [&, &wanted = name](const Parameter& one) { return one.name == wanted; });
        const auto i = static_cast<std::size_t>(at - macro.parameters.begin());
        if (at != macro.parameters.end() && i >= given) {
            scope_->set(name, value);
            bound[i] = true;
        } else if (name == "caller") {
            scope_->set(name, value);
        } else if (macro.takes_named) {
            named.emplace_back(Value(name), value);
        } else {
            throw Failure{str("macro '", macro.text, "' takes no keyword argument '", name, "'")};
        }
    }
    for (std::size_t i = given; i < macro.parameters.size(); ++i) {
        const Parameter& parameter = macro.parameters[i];
        if (!bound[i])
            scope_->set(parameter.name,
                        parameter.by_default != nullptr
                            ? evaluate(*parameter.by_default)
                            : Value::undefined(str("parameter '", parameter.name, "' was not provided")));
    }
    if (macro.takes_more)
        scope_->set("varargs", make_tuple(std::move(more)));
    if (macro.takes_named)
        scope_->set("kwargs", make_dict(std::move(named)));
    MarkedText text, *const out = std::exchange(out_, &text);
    run(macro.blocks[0]);
    out_ = out;
    line_ = line;
    return text;
}

void Evaluator::assign(const Target& target, const Value& value)
{
    if (target.is_tuple) {
        const std::vector<Value> values = elements(value);
        if (values.size() != target.several.size())
            throw Failure{values.size() < target.several.size()
                              ? str("not enough values to unpack (expected ", target.several.size(), ", got ",
                                    values.size(), ")")
                              : str("too many values to unpack (expected ", target.several.size(), ")")};
        for (std::size_t i = 0; i < values.size(); ++i)
            assign(target.several[i], values[i]);
    } else if (target.attribute.empty()) {
        scope_->set(target.name, value);
    } else {
        const Value of = variable(target.name);
        if (of.object() == nullptr)
            throw Failure{"cannot assign attribute on non-namespace object"};
        of.object()->set_attribute(target.attribute, value);
    }
}

} // namespace trivium::jinja
