#include "io/chat/jinja/functions.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"

#include <algorithm>
#include <map>

namespace trivium::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<const char*> names, std::size_t required)
    : function_(function), names_(names), values_(names.size())
{
    if (arguments.positional.size() > names.size())
        throw Failure{str(function, "() takes at most ", names.size(), " arguments (",
                          arguments.positional.size(), " given)")};
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto at = std::find(names_.begin(), names_.end(), std::string_view(name));
        if (at == names_.end())
            throw Failure{str(function, "() got an unexpected keyword argument '", name, "'")};
        const Value*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
        if (slot != nullptr)
            throw Failure{str(function, "() got multiple values for argument '", name, "'")};
        slot = &value;
    }
    for (std::size_t i = 0; i < required; ++i)
        if (values_[i] == nullptr)
            throw Failure{str(function, "() misses the argument '", names_[i], "'")};
}

void Parameters::refuse(std::size_t i, const char* expected) const
{
    require_defined(*values_[i]);
    throw Failure{
        str(function_, "(): '", names_[i], "' must be ", expected, ", not ", values_[i]->type_name())};
}

i64 Parameters::integer(std::size_t i, i64 by_default) const
{
    if (values_[i] == nullptr)
        return by_default;
    if (!values_[i]->whole())
        refuse(i, "int");
    return *values_[i]->whole();
}

bool Parameters::truth_of(std::size_t i, bool by_default) const
{
    return values_[i] == nullptr ? by_default : truth(*values_[i]);
}

std::string Parameters::text(std::size_t i, const std::string& by_default) const
{
    if (values_[i] == nullptr)
        return by_default;
    if (!values_[i]->is_text())
        refuse(i, "str");
    return values_[i]->text();
}

std::optional<Value> Namespace::attribute(std::string_view name)
{
    for (const auto& [known, value] : scope_.values)
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
    spend();
    scope_.set(name, std::move(value));
}

Loop::Loop(std::vector<Value> items) : items_(std::move(items))
{
    for (const Value& item : items_)
        depth_ = std::max(depth_, item.depth() + 1);
}

std::optional<Value> Loop::attribute(std::string_view name)
{
    const i64 size = static_cast<i64>(items_.size());
    const auto at = [&](i64 i) {
        return i < 0 || i >= size ? Value::undefined("there is no such item of the loop")
                                  : items_[static_cast<std::size_t>(i)];
    };
    if (name == "index" || name == "index0")
        return index + (name == "index" ? 1 : 0);
    if (name == "revindex" || name == "revindex0")
        return size - index - (name == "revindex" ? 0 : 1);
    if (name == "first" || name == "last")
        return name == "first" ? index == 0 : index + 1 == size;
    if (name == "length")
        return size;
    if (name == "previtem" || name == "nextitem")
        return at(index + (name == "nextitem" ? 1 : -1));
    for (const char* other : {"cycle", "changed", "depth", "depth0"})
        if (name == other)
            throw Failure{str("loop.", name, " is not supported")};
    return std::nullopt;
}

namespace {

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
    return make_list(std::move(items), List::Kind::range);
}

Value dict(Evaluator&, const Arguments& arguments)
{
    const Arguments positional{arguments.positional, {}};
    const Parameters given("dict", positional, {"mapping"});
    std::vector<std::pair<Value, Value>> items;
    if (given[0] != nullptr) {
        if (given[0]->dict() == nullptr)
            throw Failure{str("dict() of type '", given[0]->type_name(), "' is not supported")};
        items = given[0]->dict()->items;
    }
    for (const auto& [name, value] : arguments.named)
        items.emplace_back(Value(name), value);
    return make_dict(std::move(items));
}

Value make_namespace(Evaluator& evaluator, const Arguments& arguments)
{
    auto made = std::make_shared<Namespace>();
    const Value all = dict(evaluator, arguments);
    for (const auto& [key, value] : all.dict()->items) {
        if (!key.is_text())
            throw Failure{"the attributes of a namespace are named by texts"};
        made->set_attribute(key.text(), value);
    }
    spend();
    evaluator.keep(made);
    return {std::shared_ptr<Object>(std::move(made))};
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

} // namespace

const Value* find_function(std::string_view name)
{
    static const std::map<std::string, Value, std::less<>> functions{
        {"range", make_function(range)},
        {"dict", make_function(dict)},
        {"namespace", make_function(make_namespace)},
        {"raise_exception", make_function(raise_exception)},
        {"strftime_now", make_function(strftime_now)},
    };
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : &found->second;
}

} // namespace trivium::jinja
