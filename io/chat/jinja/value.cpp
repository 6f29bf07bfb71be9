#include "io/chat/jinja/value.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"

#include <algorithm>

namespace trivium::jinja {

int Value::depth() const
{
    if (const List* list = this->list())
        return list->depth;
    if (const Dict* dict = this->dict())
        return dict->depth;
    if (const Object* object = this->object())
        return object->depth();
    return 0;
}

bool Value::same(const Value& other) const
{
    if (data_.index() != other.data_.index())
        return false;
    return std::visit(
        [&](const auto& held) {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, None>)
                return true;
            else
                return held == std::get<Held>(other.data_);
        },
        data_);
}

const char* Value::type_name() const
{
    if (const List* list = this->list()) {
        static constexpr const char* names[]{"list", "tuple", "range", "dict view", "generator"};
        return names[static_cast<std::size_t>(list->kind)];
    }
    return is_undefined()        ? "Undefined"
           : is_none()           ? "NoneType"
           : is_bool()           ? "bool"
           : is_int()            ? "int"
           : is_float()          ? "float"
           : is_text()           ? as_text().safe ? "Markup" : "str"
           : object() == nullptr ? "dict"
                                 : object()->type_name();
}

const Value* Dict::find(std::string_view key) const
{
    spend(items.size() / 8);
    for (const auto& [name, value] : items)
        if (name.is_text() && name.text() == key)
            return &value;
    return nullptr;
}

const Value* Dict::find(const Value& key) const
{
    if (key.is_text())
        return find(std::string_view(key.text()));
    for (const auto& [name, value] : items)
        if (equal(name, key))
            return &value;
    return nullptr;
}

void Object::set_attribute(const std::string&, Value)
{
    throw Failure{"cannot assign attribute on non-namespace object"};
}

Value Object::call(Evaluator&, const Arguments&)
{
    throw Failure{str("'", type_name(), "' object is not callable")};
}

namespace {

int deeper(int depth)
{
    if (depth >= max_value_depth)
        throw Failure{str("nests more than ", max_value_depth, " lists and dicts")};
    return depth + 1;
}

} // namespace

Value make_function(FunctionBody body, int depth)
{
    class Function final : public Object {
    public:
        Function(FunctionBody body, int depth) : body_(std::move(body)), depth_(depth) {}
        const char* type_name() const override { return "function"; }
        int depth() const override { return depth_; }
        Value call(Evaluator& evaluator, const Arguments& arguments) override
        {
            return body_(evaluator, arguments);
        }

    private:
        FunctionBody body_;
        int depth_;
    };
    return {std::shared_ptr<Object>(std::make_shared<Function>(std::move(body), deeper(depth)))};
}

Value make_list(std::vector<Value> items, List::Kind kind)
{
    spend(items.size());
    int depth = 0;
    for (const Value& item : items)
        depth = std::max(depth, item.depth());
    return {std::make_shared<List>(List{std::move(items), kind, false, deeper(depth)})};
}

Value make_dict(std::vector<std::pair<Value, Value>> items, i32 message)
{
    Dict dict;
    dict.message = message;
    int depth = 0;
    for (auto& [key, value] : items) {
        require_key(key);
        spend();
        depth = std::max({depth, key.depth(), value.depth()});
        if (const Value* before = dict.find(key))
            const_cast<Value&>(*before) = std::move(value);
        else
            dict.items.emplace_back(std::move(key), std::move(value));
    }
    dict.depth = deeper(depth);
    return {std::make_shared<const Dict>(std::move(dict))};
}

} // namespace trivium::jinja
