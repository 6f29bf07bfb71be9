#include "io/chat/jinja/objects.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/methods.hpp"
#include "io/chat/jinja/operations.hpp"

#include <algorithm>
#include <map>

namespace trivium::jinja {

std::optional<Value> Namespace::attribute(std::string_view name)
{
    for (const auto& [known, value] : values)
        if (known == name)
            return value;
    return std::nullopt;
}

void Namespace::set_attribute(const std::string& name, Value value)
{
    if (name.starts_with("_"))
        throw Failure{
            str("chat templates cannot store underscore-prefixed attributes on a namespace, but got '", name,
                "'")};
    for (auto& [known, old] : values) {
        if (known == name) {
            old = std::move(value);
            return;
        }
    }
    spend();
    values.emplace_back(name, std::move(value));
}

Loop::Loop(std::vector<Value> items, const Statement& statement, std::shared_ptr<Scope> around, int depth)
    : items_(std::move(items)), statement_(statement), around_(std::move(around)), depth_(depth)
{
    for (const Value& item : items_)
        value_depth_ = std::max(value_depth_, item.depth() + 1);
}

namespace {

/// A method of a loop.
class LoopMethod final : public Object {
public:
    LoopMethod(std::shared_ptr<Loop> loop, bool cycles) : loop_(std::move(loop)), cycles_(cycles) {}
    const char* type_name() const override { return "method"; }
    int depth() const override { return loop_->depth() + 1; }
    Value call(Evaluator& evaluator, const Arguments& arguments) override
    {
        const std::vector<Value>& given = arguments.positional;
        if (!arguments.named.empty())
            throw Failure{"methods of a loop take no keyword arguments"};
        if (cycles_) {
            if (given.empty())
                throw Failure{"no items for cycling given"};
            return given[static_cast<std::size_t>(loop_->index) % given.size()];
        }
        const bool same =
            loop_->has_changed && std::equal(given.begin(), given.end(), loop_->last_changed.begin(),
                                             loop_->last_changed.end(), equal);
        if (!std::exchange(loop_->has_changed, true))
            evaluator.keep(loop_);
        loop_->last_changed = given;
        return !same;
    }

private:
    std::shared_ptr<Loop> loop_;
    bool cycles_;
};

} // namespace

std::optional<Value> Loop::attribute(std::string_view name)
{
    const i64 size = static_cast<i64>(items_.size());
    const auto at = [&](i64 i) { return items_[static_cast<std::size_t>(i)]; };
    if (name == "index" || name == "index0")
        return index + (name == "index" ? 1 : 0);
    if (name == "revindex" || name == "revindex0")
        return size - index - (name == "revindex" ? 0 : 1);
    if (name == "first")
        return index == 0;
    if (name == "last")
        return index + 1 == size;
    if (name == "length")
        return size;
    if (name == "depth" || name == "depth0")
        return i64{depth_} + (name == "depth" ? 1 : 0);
    if (name == "previtem")
        return index == 0 ? Value::undefined("there is no previous item") : at(index - 1);
    if (name == "nextitem")
        return index + 1 >= size ? Value::undefined("there is no next item") : at(index + 1);
    if (name == "cycle" || name == "changed")
        return Value(std::shared_ptr<Object>(std::make_shared<LoopMethod>(
            std::static_pointer_cast<Loop>(shared_from_this()), name == "cycle")));
    return std::nullopt;
}

Value Loop::call(Evaluator& evaluator, const Arguments& arguments)
{
    if (!statement_.recursive)
        throw Failure{"the loop must have the 'recursive' marker to be called recursively"};
    const Parameters given("loop", arguments, {"iterable"}, 1);
    return {evaluator.run_loop_again(statement_, around_, *given[0], depth_ + 1)};
}

std::optional<Value> Macro::attribute(std::string_view name)
{
    if (name == "name")
        return Value(statement_.text);
    return std::nullopt;
}

namespace {

using FunctionBody = Value (*)(Evaluator& evaluator, const Arguments& arguments);

class Function final : public Object {
public:
    explicit Function(FunctionBody body) : body_(body) {}
    const char* type_name() const override { return "function"; }
    Value call(Evaluator& evaluator, const Arguments& arguments) override
    {
        return body_(evaluator, arguments);
    }

private:
    FunctionBody body_;
};

Value range(Evaluator&, const Arguments& arguments)
{
    const Parameters given("range", arguments, {"start", "stop", "step"}, 1);
    const bool only_stop = given[1] == nullptr;
    const i64 start = only_stop ? 0 : given.integer(0, 0), stop = given.integer(only_stop ? 0 : 1, 0),
              step = given.integer(2, 1);
    if (step == 0)
        throw Failure{"range() arg 3 must not be zero"};
    const double numbers =
        (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
    if (numbers > static_cast<double>(max_range))
        throw Failure{str("range too big: the sandbox allows at most ", max_range, " numbers")};
    std::vector<Value> items;
    for (i64 at = start; step > 0 ? at < stop : at > stop;) {
        items.emplace_back(at);
        if (__builtin_add_overflow(at, step, &at))
            break;
    }
    return make_list(std::move(items), List::Kind::range,
                     step == 1 ? str("range(", start, ", ", stop, ")")
                               : str("range(", start, ", ", stop, ", ", step, ")"));
}

/// The items of dict(…): those of a dict or a list of pairs, then named ones.
std::vector<std::pair<Value, Value>> items_of(const Arguments& arguments)
{
    std::vector<std::pair<Value, Value>> items;
    if (arguments.positional.size() > 1)
        throw Failure{"dict expected at most 1 argument"};
    if (!arguments.positional.empty()) {
        const Value& from = arguments.positional[0];
        if (const Dict* dict = from.dict()) {
            items = dict->items;
        } else {
            for (const Value& pair : elements(from)) {
                std::vector<Value> both = elements(pair);
                if (both.size() != 2)
                    throw Failure{"dict() needs pairs of keys and values"};
                items.emplace_back(both[0], both[1]);
            }
        }
    }
    for (const auto& [name, value] : arguments.named)
        items.emplace_back(Value(name), value);
    return items;
}

Value dict(Evaluator&, const Arguments& arguments) { return make_dict(items_of(arguments)); }

Value make_namespace(Evaluator& evaluator, const Arguments& arguments)
{
    auto made = std::make_shared<Namespace>();
    for (auto& [key, value] : items_of(arguments)) {
        if (!key.is_text())
            throw Failure{"the attributes of a namespace are named by texts"};
        made->set_attribute(key.text(), std::move(value));
    }
    spend();
    evaluator.keep(made);
    return {std::shared_ptr<Object>(std::move(made))};
}

/// cycler(…): each call of next() yields the next of the values.
class Cycler final : public Object {
public:
    explicit Cycler(std::vector<Value> values) : values_(std::move(values))
    {
        for (const Value& value : values_)
            depth_ = std::max(depth_, value.depth() + 1);
    }
    const char* type_name() const override { return "Cycler"; }
    bool is_callable() const override { return false; }
    int depth() const override { return depth_; }
    std::optional<Value> attribute(std::string_view name) override;
    Value next() { return values_[at_++ % values_.size()]; }
    void reset() { at_ = 0; }

private:
    std::vector<Value> values_;
    std::size_t at_ = 0;
    int depth_ = 1;
};

class CyclerMethod final : public Object {
public:
    CyclerMethod(Cycler& cycler, bool next) : cycler_(cycler), next_(next) {}
    const char* type_name() const override { return "method"; }
    Value call(Evaluator&, const Arguments&) override
    {
        if (next_)
            return cycler_.next();
        cycler_.reset();
        return {};
    }

private:
    Cycler& cycler_; // kept by the evaluator
    bool next_;
};

std::optional<Value> Cycler::attribute(std::string_view name)
{
    if (name == "current")
        return values_[at_ % values_.size()];
    if (name == "next" || name == "reset")
        return Value(std::shared_ptr<Object>(std::make_shared<CyclerMethod>(*this, name == "next")));
    return std::nullopt;
}

Value cycler(Evaluator& evaluator, const Arguments& arguments)
{
    if (arguments.positional.empty() || !arguments.named.empty())
        throw Failure{"cycler() needs at least one value"};
    auto made = std::make_shared<Cycler>(arguments.positional);
    evaluator.keep(made);
    return {std::shared_ptr<Object>(std::move(made))};
}

/// joiner(separator): the first call yields nothing, each later one the separator.
class Joiner final : public Object {
public:
    explicit Joiner(std::string separator) : separator_(std::move(separator)) {}
    const char* type_name() const override { return "Joiner"; }
    Value call(Evaluator&, const Arguments&) override
    {
        const bool first = std::exchange(first_, false);
        return first ? Value("") : Value(separator_);
    }

private:
    std::string separator_;
    bool first_ = true;
};

Value joiner(Evaluator&, const Arguments& arguments)
{
    const Parameters given("joiner", arguments, {"sep"});
    return {std::shared_ptr<Object>(std::make_shared<Joiner>(given.text(0, ", ")))};
}

Value raise_exception(Evaluator&, const Arguments& arguments)
{
    const Parameters given("raise_exception", arguments, {"message"}, 1);
    throw Refusal{given[0]->is_text() ? given[0]->text() : ""};
}

Value strftime_now(Evaluator& evaluator, const Arguments& arguments)
{
    const std::string format = Parameters("strftime_now", arguments, {"format"}, 1).text(0, "");
    if (format.size() > 200)
        throw Failure{"the format of strftime_now is too long"};
    const std::time_t now = evaluator.now();
    std::tm parts{};
    localtime_r(&now, &parts);
    char text[4000];
    return Value(std::string(text, std::strftime(text, sizeof text, format.c_str(), &parts)));
}

Value function(FunctionBody body) { return {std::shared_ptr<Object>(std::make_shared<Function>(body))}; }

} // namespace

const Value* find_function(std::string_view name)
{
    static const std::map<std::string, Value, std::less<>> functions{
        {"range", function(range)},
        {"dict", function(dict)},
        {"namespace", function(make_namespace)},
        {"cycler", function(cycler)},
        {"joiner", function(joiner)},
        {"raise_exception", function(raise_exception)},
        {"strftime_now", function(strftime_now)},
    };
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : &found->second;
}

} // namespace trivium::jinja
