#include "io/chat/jinja/evaluator.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
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
    case Statement::Kind::print: out_->append(to_text(evaluate(*statement.expressions[0]))); break;
    case Statement::Kind::branch: return run_branch(statement);
    case Statement::Kind::loop: return run_loop(statement);
    case Statement::Kind::assign: assign(statement.target, evaluate(*statement.expressions[0])); break;
    case Statement::Kind::capture: assign(statement.target, of_block(statement)); break;
    case Statement::Kind::filter: out_->append(to_text(of_block(statement))); break;
    case Statement::Kind::macro: scope_->set(statement.text, macro_of(statement)); break;
    case Statement::Kind::call:
        out_->append(to_text(called(*statement.expressions[0], {{"caller", macro_of(statement)}})));
        break;
    case Statement::Kind::generation: {
        const MarkedText text = printed(statement.blocks[0]);
        const std::size_t begin = out_->size();
        out_->append(text);
        out_->mark(begin, out_->size(), Mark::Kind::generation, 0);
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

Evaluator::Flow Evaluator::run_loop(const Statement& statement)
{
    std::vector<Value> items = elements(evaluate(*statement.expressions[0]));
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
    const auto loop = std::make_shared<Loop>(std::move(items));
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

Value Evaluator::of_block(const Statement& statement)
{
    Value text(printed(statement.blocks[0]));
    const Enter enter(*this);
    scope_->set("", std::move(text));
    return evaluate(*statement.expressions[0]);
}

MarkedText Evaluator::printed(const Block& block)
{
    const Enter enter(*this);
    MarkedText text, *const out = std::exchange(out_, &text);
    run(block);
    out_ = out;
    return text;
}

Value Evaluator::macro_of(const Statement& statement)
{
    return make_function([&statement, around = scope_](Evaluator& self, const Arguments& given) {
        return self.run_macro(statement, around, given);
    });
}

Value Evaluator::run_macro(const Statement& macro, const std::shared_ptr<Scope>& around,
                           const Arguments& arguments)
{
    const int line = line_;
    const Enter enter(*this, around);
    const std::vector<Parameter>& parameters = macro.parameters;
    if (arguments.positional.size() > parameters.size())
        throw Failure{
            str("macro '", macro.text, "' takes not more than ", parameters.size(), " argument(s)")};
    std::vector<const Value*> given(parameters.size());
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        given[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        if (name == "caller") {
            scope_->set(name, value);
            continue;
        }
        const auto at = static_cast<std::size_t>(
            std::find_if(parameters.begin(), parameters.end(),
                         [&, &wanted = name](const Parameter& one) { return one.name == wanted; }) -
            parameters.begin());
        if (at == parameters.size() || given[at] != nullptr)
            throw Failure{str("macro '", macro.text, "' takes no keyword argument '", name, "'")};
        given[at] = &value;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto& [name, by_default] = parameters[i];
        scope_->set(name, given[i] != nullptr ? *given[i]
                          : by_default != nullptr
                              ? evaluate(*by_default)
                              : Value::undefined(str("parameter '", name, "' was not provided")));
    }
    Value text(printed(macro.blocks[0]));
    line_ = line;
    return text;
}

void Evaluator::assign(const Target& target, const Value& value)
{
    const std::vector<Value> values = target.is_tuple ? elements(value) : std::vector<Value>{value};
    if (values.size() != target.places.size())
        throw Failure{str(values.size() < target.places.size() ? "not enough" : "too many",
                          " values to unpack (expected ", target.places.size(), ", got ", values.size(),
                          ")")};
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto& [name, attribute] = target.places[i];
        if (attribute.empty()) {
            scope_->set(name, values[i]);
            continue;
        }
        const Value of = variable(name);
        if (of.object() == nullptr)
            throw Failure{"cannot assign attribute on non-namespace object"};
        of.object()->set_attribute(attribute, values[i]);
    }
}

} // namespace trivium::jinja
