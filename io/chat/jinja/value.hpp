#pragma once
// Values of a template: what Python would hold, as far as chat templates can tell.
#include "io/chat/jinja/text.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

namespace trivium::jinja {

class Value;
class Evaluator;
struct List;
struct Dict;
class Object;

struct None {};
/// A value that is missing. Using it other than by printing, testing or iterating fails with this text.
struct Undefined {
    std::string why;
};
/// A text. `safe`: Markup, which escapes what is added to it.
struct Text {
    MarkedText marked;
    bool safe = false;
};

/// Arguments of a call.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

/// Immutable, except for the attributes of a namespace and the state of iterators and loops. Copies share.
class Value {
public:
    using Data =
        std::variant<std::shared_ptr<const Undefined>, None, bool, i64, double, std::shared_ptr<const Text>,
                     std::shared_ptr<List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

    Value() : data_(None{}) {}
    Value(bool value) : data_(value) {}
    Value(i64 value) : data_(value) {}
    Value(double value) : data_(value) {}
    Value(MarkedText text, bool safe = false)
        : data_(std::make_shared<const Text>(Text{std::move(text), safe}))
    {
    }
    Value(std::string text) : Value(MarkedText(std::move(text))) {}
    Value(const char* text) : Value(MarkedText(text)) {}
    Value(std::shared_ptr<const Undefined> undefined) : data_(std::move(undefined)) {}
    Value(std::shared_ptr<List> list) : data_(std::move(list)) {}
    Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
    Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
    static Value undefined(std::string why)
    {
        return {std::make_shared<const Undefined>(Undefined{std::move(why)})};
    }

    bool is_undefined() const { return holds<std::shared_ptr<const Undefined>>(); }
    bool is_none() const { return holds<None>(); }
    bool is_bool() const { return holds<bool>(); }
    bool is_int() const { return holds<i64>(); }
    bool is_float() const { return holds<double>(); }
    bool is_number() const { return is_bool() || is_int() || is_float(); }
    bool is_text() const { return holds<std::shared_ptr<const Text>>(); }

    bool as_bool() const { return std::get<bool>(data_); }
    i64 as_int() const { return std::get<i64>(data_); }
    double as_float() const { return std::get<double>(data_); }
    /// Of a bool or an int.
    std::optional<i64> whole() const
    {
        return is_int() ? std::optional(as_int()) : is_bool() ? std::optional(i64{as_bool()}) : std::nullopt;
    }
    /// Of a number.
    double number() const { return is_float() ? as_float() : static_cast<double>(*whole()); }
    const Undefined& as_undefined() const { return *std::get<std::shared_ptr<const Undefined>>(data_); }
    const Text& as_text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
    const MarkedText& marked() const { return as_text().marked; }
    const std::string& text() const { return as_text().marked.text(); }
    // Null if the value is of another kind.
    List* list() const { return pointer<std::shared_ptr<List>>(); }
    const Dict* dict() const { return pointer<std::shared_ptr<const Dict>>(); }
    Object* object() const { return pointer<std::shared_ptr<Object>>(); }

    /// Levels of lists and dicts; 0 of others.
    int depth() const;
    /// Whether they are the same object, as Python's `is`.
    bool same(const Value& other) const;
    /// As Python names its type: "str", "dict", …
    const char* type_name() const;

private:
    template <class Held>
    bool holds() const
    {
        return std::holds_alternative<Held>(data_);
    }
    template <class Held>
    typename Held::element_type* pointer() const
    {
        const Held* held = std::get_if<Held>(&data_);
        return held == nullptr ? nullptr : held->get();
    }
    Data data_;
};

struct List {
    enum class Kind : std::uint8_t {
        list,
        tuple,
        range,    ///< not printed
        view,     ///< of a dict: has a length, but no elements by index; not printed
        iterator, ///< true, without a length, iterated once and not printed
    };
    std::vector<Value> items;
    Kind kind = Kind::list;
    bool consumed = false;
    int depth = 1;

    bool is_plain() const { return kind == Kind::list || kind == Kind::tuple; }
    bool has_elements() const { return kind != Kind::view && kind != Kind::iterator; }
};

struct Dict {
    std::vector<std::pair<Value, Value>> items; ///< keys are different
    int depth = 1;
    i32 message = -1; ///< the message that it is, or -1

    const Value* find(std::string_view key) const;
    const Value* find(const Value& key) const;
};

/// What has attributes or can be called.
class Object {
public:
    virtual ~Object() = default;
    virtual const char* type_name() const = 0;
    virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
    /// \throws Failure
    virtual void set_attribute(const std::string& name, Value value);
    /// \throws Failure
    virtual Value call(Evaluator& evaluator, const Arguments& arguments);
    virtual int depth() const { return 0; }
    /// Drops values that may contain this object, at the end of a rendering.
    virtual void clear() {}
};

using FunctionBody = std::function<Value(Evaluator& evaluator, const Arguments& arguments)>;
/// `depth`: levels of lists and dicts that the function holds. \throws Failure if there are too many
Value make_function(FunctionBody body, int depth = 0);

/// \throws Failure if they nest too deeply
Value make_list(std::vector<Value> items, List::Kind kind = List::Kind::list);
/// Of several equal keys the first stays, with the last value. \throws Failure if a key is a list or a dict
Value make_dict(std::vector<std::pair<Value, Value>> items, i32 message = -1);

} // namespace trivium::jinja
