#include "io/chat/jinja/methods.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/text_methods.hpp"

#include <algorithm>
#include <set>

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

namespace {

[[noreturn]] void refuse_type(const std::string& function, const char* name, const char* expected,
                              const Value& value)
{
    if (value.is_undefined())
        throw Failure{value.as_undefined().why};
    throw Failure{str(function, "(): '", name, "' must be ", expected, ", not ", value.type_name())};
}

} // namespace

i64 Parameters::integer(std::size_t i, i64 by_default) const
{
    if (values_[i] == nullptr)
        return by_default;
    if (!values_[i]->whole())
        refuse_type(function_, names_[i], "int", *values_[i]);
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
        refuse_type(function_, names_[i], "str", *values_[i]);
    return values_[i]->text();
}

namespace {

Value list_method(const List& list, const std::string& name, const Arguments& arguments)
{
    if (name == "copy") {
        Parameters(name, arguments, {});
        return make_list(list.items);
    }
    const Parameters given(name, arguments, {"value", "start", "stop"}, 1);
    const auto is_it = [&](const Value& item) { return equal(item, *given[0]); };
    if (name == "count")
        return i64{std::count_if(list.items.begin(), list.items.end(), is_it)};
    const i64 size = static_cast<i64>(list.items.size());
    const auto bound = [&](i64 at) { return std::clamp(at < 0 ? at + size : at, i64{0}, size); };
    const i64 stop = bound(given.integer(2, size));
    for (i64 at = bound(given.integer(1, 0)); at < stop; ++at)
        if (is_it(list.items[static_cast<std::size_t>(at)]))
            return at;
    throw Failure{"the value is not in the list"};
}

Value dict_method(const Value& self, const std::string& name, const Arguments& arguments)
{
    const Dict& dict = *self.dict();
    if (name == "get") {
        const Parameters given(name, arguments, {"key", "default"}, 1);
        if (!is_hashable(*given[0]))
            throw Failure{str("unhashable type: '", given[0]->type_name(), "'")};
        const Value* found = dict.find(*given[0]);
        return found != nullptr ? *found : given[1] != nullptr ? *given[1] : Value();
    }
    Parameters(name, arguments, {});
    if (name == "copy")
        return self;
    std::vector<Value> all;
    for (const auto& [key, value] : dict.items)
        all.push_back(name == "keys" ? key : name == "values" ? value : make_tuple({key, value}));
    return make_list(std::move(all), List::Kind::view, "dict_" + name);
}

const std::set<std::string, std::less<>> list_methods{"copy", "count", "index"};
const std::set<std::string, std::less<>> changing_list_methods{"append", "clear",  "extend",  "insert",
                                                               "pop",    "remove", "reverse", "sort"};
const std::set<std::string, std::less<>> dict_methods{"copy", "get", "items", "keys", "values"};
const std::set<std::string, std::less<>> changing_dict_methods{"clear", "pop", "popitem", "setdefault",
                                                               "update"};

class Method final : public Object {
public:
    Method(Value self, std::string name) : self_(std::move(self)), name_(std::move(name)) {}
    const char* type_name() const override { return "builtin_function_or_method"; }
    int depth() const override { return self_.depth() + 1; }
    Value call(Evaluator&, const Arguments& arguments) override
    {
        if (self_.is_text())
            return text_method(self_, name_, arguments);
        if (const List* list = self_.list())
            return list_method(*list, name_, arguments);
        return dict_method(self_, name_, arguments);
    }

private:
    Value self_;
    std::string name_;
};

} // namespace

std::optional<Value> method_of(const Value& value, const std::string& name)
{
    bool changes = false;
    if (value.is_text()) {
        if (!is_text_method(name))
            return std::nullopt;
    } else if (const List* list = value.list()) {
        changes = list->kind == List::Kind::list && changing_list_methods.contains(name);
        const bool known = list->has_elements() && list_methods.contains(name) &&
                           (name != "copy" || list->kind == List::Kind::list);
        if (!changes && !known)
            return std::nullopt;
    } else if (value.dict() != nullptr) {
        changes = changing_dict_methods.contains(name);
        if (!changes && !dict_methods.contains(name))
            return std::nullopt;
    } else {
        return std::nullopt;
    }
    if (changes)
        return Value::undefined(
            str("access to attribute '", name, "' of '", value.type_name(), "' object is unsafe."));
    if (value.depth() >= max_value_depth)
        throw Failure{str("nests more than ", max_value_depth, " lists and dicts")};
    return Value(std::shared_ptr<Object>(std::make_shared<Method>(value, name)));
}

} // namespace trivium::jinja
