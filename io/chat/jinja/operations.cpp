#include "io/chat/jinja/operations.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>

namespace trivium::jinja {

bool truth(const Value& value)
{
    if (value.is_undefined() || value.is_none())
        return false;
    if (value.is_number())
        return value.is_float() ? value.as_float() != 0 : *value.whole() != 0;
    if (value.is_text())
        return !value.text().empty();
    if (const List* list = value.list())
        return list->kind == List::Kind::iterator || !list->items.empty();
    if (const Dict* dict = value.dict())
        return !dict->items.empty();
    return true;
}

bool equal(const Value& a, const Value& b)
{
    spend();
    if (a.is_number() && b.is_number())
        return a.whole() && b.whole() ? *a.whole() == *b.whole() : a.number() == b.number();
    if (a.is_text() && b.is_text()) {
        spend(a.text().size() / 64);
        return a.text() == b.text();
    }
    if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
        if (x == y)
            return true;
        return x->kind == y->kind && x->has_elements() &&
               std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
    }
    if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
        if (x == y)
            return true;
        return x->items.size() == y->items.size() &&
               std::all_of(x->items.begin(), x->items.end(), [&](const auto& item) {
                   const Value* other = y->find(item.first);
                   return other != nullptr && equal(item.second, *other);
               });
    }
    if (a.is_undefined() || a.is_none())
        return a.is_undefined() ? b.is_undefined() : b.is_none();
    return a.same(b);
}

void require_key(const Value& value)
{
    if (value.list() != nullptr || value.dict() != nullptr)
        throw Failure{str("a key of type '", value.type_name(), "' of a dict is not supported")};
}

void require_defined(const Value& value)
{
    if (value.is_undefined())
        throw Failure{value.as_undefined().why};
}

namespace {

template <class T>
bool in_order(std::string_view op, const T& a, const T& b)
{
    return op == "<" ? a < b : op == "<=" ? a <= b : op == ">" ? a > b : a >= b;
}

bool ordered(std::string_view op, const Value& a, const Value& b)
{
    spend();
    require_defined(a);
    require_defined(b);
    if (a.is_number() && b.is_number())
        return a.whole() && b.whole() ? in_order(op, *a.whole(), *b.whole())
                                      : in_order(op, a.number(), b.number());
    if (a.is_text() && b.is_text())
        return in_order(op, a.text(), b.text());
    if (const List* x = a.list(), *y = b.list();
        x != nullptr && y != nullptr && x->is_plain() && x->kind == y->kind) {
        for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i)
            if (!equal(x->items[i], y->items[i]))
                return ordered(op, x->items[i], y->items[i]);
        return in_order(op, x->items.size(), y->items.size());
    }
    throw Failure{
        str("'", op, "' not supported between instances of '", a.type_name(), "' and '", b.type_name(), "'")};
}

bool contains(const Value& container, const Value& item)
{
    if (container.is_text()) {
        if (!item.is_text())
            throw Failure{str("'in <string>' requires string as left operand, not ", item.type_name())};
        spend(container.text().size() / 16);
        return container.text().find(item.text()) != std::string::npos;
    }
    if (const Dict* dict = container.dict()) {
        require_key(item);
        return dict->find(item) != nullptr;
    }
    const std::vector<Value> all = elements(container);
    return std::any_of(all.begin(), all.end(), [&](const Value& element) { return equal(element, item); });
}

} // namespace

bool compared(std::string_view op, const Value& a, const Value& b)
{
    if (op == "in" || op == "not in")
        return contains(b, a) == (op == "in");
    if (op == "==" || op == "!=")
        return equal(a, b) == (op == "==");
    return ordered(op, a, b);
}

namespace {

[[noreturn]] void refuse_overflow(std::string_view op)
{
    throw Failure{str("the result of ", op, " does not fit 64 bits")};
}

Value of_integers(std::string_view op, i64 a, i64 b)
{
    i64 result = 0;
    if (op == "+" || op == "-" || op == "*") {
        if (op == "+"   ? __builtin_add_overflow(a, b, &result)
            : op == "-" ? __builtin_sub_overflow(a, b, &result)
                        : __builtin_mul_overflow(a, b, &result))
            refuse_overflow(op);
        return result;
    }
    if (b == 0)
        throw Failure{op == "/" ? "division by zero" : "integer division or modulo by zero"};
    if (op == "/")
        return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1)
        return op == "%" ? Value(i64{0}) : negative(a);
    // Python rounds to minus infinity.
    const bool inexact = a % b != 0 && (a < 0) != (b < 0);
    return op == "//" ? a / b - (inexact ? 1 : 0) : a % b + (inexact ? b : 0);
}

Value of_floats(std::string_view op, double a, double b)
{
    if (op == "//" || op == "%")
        throw Failure{str("the operator ", op, " is supported for integers only")};
    if (op == "/" && b == 0)
        throw Failure{"float division by zero"};
    return op == "+" ? a + b : op == "-" ? a - b : op == "*" ? a * b : a / b;
}

MarkedText html_escaped(const Value& value)
{
    MarkedText out;
    const MarkedText text = to_text(value);
    if (value.is_text() && value.as_text().safe)
        return text;
    static constexpr std::string_view characters = "&<>\'\"";
    static constexpr const char* entities[]{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    std::size_t begin = 0;
    for (std::size_t at; (at = text.text().find_first_of(characters, begin)) != std::string::npos;
         begin = at + 1) {
        out.append(text.part(begin, at));
        out.append(entities[characters.find(text.text()[at])]);
    }
    out.append(text.part(begin, text.size()));
    return out;
}

Value sum_of_texts(const Value& a, const Value& b)
{
    const bool safe = a.as_text().safe || b.as_text().safe;
    MarkedText sum;
    sum.append(safe ? html_escaped(a) : a.marked());
    sum.append(safe ? html_escaped(b) : b.marked());
    return {std::move(sum), safe};
}

Value repeated(const Value& value, i64 times)
{
    if (value.is_text()) {
        if (times > 0 && value.text().size() > max_text / static_cast<std::size_t>(times))
            spend_on_text(0, max_text + 1);
        MarkedText result;
        for (i64 i = 0; i < times; ++i)
            result.append(value.marked());
        return {std::move(result), value.as_text().safe};
    }
    const List& list = *value.list();
    std::vector<Value> items;
    for (i64 i = 0; i < times && !list.items.empty(); ++i) {
        spend_on_items(list.items.size());
        items.insert(items.end(), list.items.begin(), list.items.end());
    }
    return make_list(std::move(items), list.kind);
}

/// A list or a tuple, which can be added and repeated.
bool can_grow(const Value& value) { return value.list() != nullptr && value.list()->is_plain(); }

} // namespace

Value escaped(const Value& value) { return {html_escaped(value), true}; }

Value arithmetic(std::string_view op, const Value& a, const Value& b)
{
    if (op == "%" && a.is_text())
        return percent_format(a, b);
    require_defined(a);
    require_defined(b);
    if (a.is_number() && b.is_number())
        return a.whole() && b.whole() ? of_integers(op, *a.whole(), *b.whole())
                                      : of_floats(op, a.number(), b.number());
    if (op == "+") {
        if (a.is_text() && b.is_text())
            return sum_of_texts(a, b);
        if (can_grow(a) && can_grow(b) && a.list()->kind == b.list()->kind) {
            spend_on_items(a.list()->items.size() + b.list()->items.size());
            std::vector<Value> items;
            items.reserve(a.list()->items.size() + b.list()->items.size());
            items.insert(items.end(), a.list()->items.begin(), a.list()->items.end());
            items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
            return make_list(std::move(items), a.list()->kind);
        }
        if (a.is_text())
            throw Failure{str("can only concatenate str (not \"", b.type_name(), "\") to str")};
    }
    if (op == "*") {
        if ((a.is_text() || can_grow(a)) && b.whole())
            return repeated(a, *b.whole());
        if ((b.is_text() || can_grow(b)) && a.whole())
            return repeated(b, *a.whole());
    }
    throw Failure{
        str("unsupported operand type(s) for ", op, ": '", a.type_name(), "' and '", b.type_name(), "'")};
}

Value negative(const Value& value)
{
    require_defined(value);
    if (value.is_float())
        return -value.as_float();
    if (!value.whole())
        throw Failure{str("bad operand type for unary -: '", value.type_name(), "'")};
    if (*value.whole() == INT64_MIN)
        refuse_overflow("-");
    return -*value.whole();
}

bool is_iterable(const Value& value)
{
    return value.is_undefined() || value.is_text() || value.list() != nullptr || value.dict() != nullptr;
}

std::vector<Value> elements(const Value& value)
{
    std::vector<Value> all;
    if (List* list = value.list()) {
        spend_on_items(list->items.size());
        if (list->kind != List::Kind::iterator)
            return list->items;
        if (list->consumed)
            return {};
        list->consumed = true;
        return std::move(list->items);
    }
    if (const Dict* dict = value.dict()) {
        spend(dict->items.size());
        for (const auto& item : dict->items)
            all.push_back(item.first);
    } else if (value.is_text()) {
        const MarkedText& text = value.marked();
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t begin = at;
            next_character(text.text(), at);
            all.emplace_back(text.part(begin, at));
        }
    } else if (!value.is_undefined()) {
        throw Failure{str("'", value.type_name(), "' object is not iterable")};
    }
    return all;
}

i64 length(const Value& value)
{
    if (value.is_undefined())
        return 0;
    if (value.is_text()) {
        spend(value.text().size() / 64);
        return count_characters(value.text());
    }
    if (const List* list = value.list(); list != nullptr && list->kind != List::Kind::iterator)
        return static_cast<i64>(list->items.size());
    if (const Dict* dict = value.dict())
        return static_cast<i64>(dict->items.size());
    throw Failure{str("object of type '", value.type_name(), "' has no len()")};
}

namespace {

std::string missing_attribute(const Value& value, const std::string& name)
{
    return str("'", value.is_none() ? "None" : str(value.type_name(), " object"), "' has no attribute ",
               repr(Value(name)));
}

std::optional<Value> own_item(const Value& value, const Value& key)
{
    if (const Dict* dict = value.dict()) {
        const Value* found = dict->find(key);
        return found == nullptr ? std::nullopt : std::optional(*found);
    }
    if (!key.whole() || !(value.is_text() || (value.list() != nullptr && value.list()->has_elements())))
        return std::nullopt;
    const i64 size = length(value), index = *key.whole() < 0 ? *key.whole() + size : *key.whole();
    if (index < 0 || index >= size)
        return std::nullopt;
    if (const List* list = value.list())
        return list->items[static_cast<std::size_t>(index)];
    const std::size_t begin = offset_of_character(value.text(), index);
    std::size_t end = begin;
    next_character(value.text(), end);
    return Value(value.marked().part(begin, end));
}

std::optional<Value> own_attribute(const Value& value, const std::string& name)
{
    if (name.starts_with("_"))
        return std::nullopt;
    if (Object* object = value.object())
        return object->attribute(name);
    return method_of(value, name);
}

} // namespace

Value item_of(const Value& value, const Value& key)
{
    require_defined(value);
    if (std::optional<Value> item = own_item(value, key))
        return *std::move(item);
    if (!key.is_text())
        return Value::undefined(
            str(value.is_none() ? "None" : str(value.type_name(), " object"), " has no element ", repr(key)));
    if (std::optional<Value> attribute = own_attribute(value, key.text()))
        return *std::move(attribute);
    return Value::undefined(missing_attribute(value, key.text()));
}

Value attribute_of(const Value& value, const std::string& name)
{
    require_defined(value);
    if (std::optional<Value> attribute = own_attribute(value, name))
        return *std::move(attribute);
    if (const Dict* dict = value.dict())
        if (const Value* found = dict->find(std::string_view(name)))
            return *found;
    return Value::undefined(missing_attribute(value, name));
}

Value slice_of(const Value& value, const Value& from, const Value& to, const Value& step)
{
    require_defined(value);
    const List* list = value.list();
    if (value.dict() != nullptr)
        throw Failure{"unhashable type: 'slice'"};
    if (!value.is_text() && (list == nullptr || !list->has_elements()))
        throw Failure{str("'", value.type_name(), "' object is not subscriptable")};
    const i64 size = length(value);
    const auto whole = [](const Value& bound) {
        if (!bound.whole())
            throw Failure{"slice indices must be integers or None or have an __index__ method"};
        return *bound.whole();
    };
    const i64 stride = step.is_none() ? 1 : whole(step);
    if (stride == 0)
        throw Failure{"slice step cannot be zero"};
    const i64 low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    const auto bound = [&](const Value& given, i64 open) {
        if (given.is_none())
            return open;
        const i64 at = whole(given);
        return std::clamp(at < 0 ? (at < -size ? low : at + size) : at, low, high);
    };
    const i64 begin = bound(from, stride > 0 ? low : high), end = bound(to, stride > 0 ? high : low);
    if (value.is_text() && stride == 1) {
        const std::size_t at = offset_of_character(value.text(), begin);
        return Value(value.marked().part(
                         at, begin >= end ? at
                                          : at + offset_of_character(
                                                     std::string_view(value.text()).substr(at), end - begin)),
                     value.as_text().safe);
    }
    const std::vector<Value> all = elements(value);
    std::vector<Value> chosen;
    for (i64 at = begin; stride > 0 ? at < end : at > end;) {
        chosen.push_back(all[static_cast<std::size_t>(at)]);
        if (__builtin_add_overflow(at, stride, &at))
            break;
    }
    if (!value.is_text())
        return make_list(std::move(chosen), list->kind);
    MarkedText text;
    for (const Value& character : chosen)
        text.append(character.marked());
    return Value(std::move(text));
}

} // namespace trivium::jinja
