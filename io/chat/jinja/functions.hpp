#pragma once
// What a template can call or ask: functions, methods, and the objects `loop` and namespace.
#include "io/chat/jinja/evaluator.hpp"

namespace trivium::jinja {

/// namespace(…).
class Namespace final : public Object {
public:
    const char* type_name() const override { return "Namespace"; }
    std::optional<Value> attribute(std::string_view name) override;
    void set_attribute(const std::string& name, Value value) override;
    void clear() override { scope_.values.clear(); }

private:
    Scope scope_;
};

/// `loop`.
class Loop final : public Object {
public:
    explicit Loop(std::vector<Value> items);
    const char* type_name() const override { return "LoopContext"; }
    std::optional<Value> attribute(std::string_view name) override;
    int depth() const override { return depth_; }

    const std::vector<Value>& items() const { return items_; }
    i64 index = 0; ///< of the current item

private:
    std::vector<Value> items_;
    int depth_ = 1;
};

/// Functions that every template knows: range, dict, namespace, raise_exception, strftime_now. Null if there
/// is none of this name.
const Value* find_function(std::string_view name);

/// `value.name`, to be called; nullopt if Python has no such method. Calling one that would change a list or
/// a dict fails, as in jinja2's immutable sandbox, as does one that is not supported.
std::optional<Value> method_of(const Value& value, const std::string& name);
/// `self.name(…)` of a text. \throws Failure
Value text_method(const Value& self, std::string_view name, const Arguments& arguments);
std::vector<Value> split_lines(const Value& text, bool keep_ends);

/// The arguments of a call, which must outlive it, bound to the parameters of a function.
class Parameters {
public:
    /// \throws Failure if there are too many or too few, or unknown ones
    Parameters(std::string_view function, Arguments&& arguments, std::initializer_list<const char*> names,
               std::size_t required = 0) = delete;
    Parameters(std::string_view function, const Arguments& arguments,
               std::initializer_list<const char*> names, std::size_t required = 0);
    /// Null if it was not given.
    const Value* operator[](std::size_t i) const { return values_[i]; }
    /// Not given: the default. \throws Failure if it is of another type
    i64 integer(std::size_t i, i64 by_default) const;
    bool truth_of(std::size_t i, bool by_default) const;
    std::string text(std::size_t i, const std::string& by_default) const;
    /// Given and not none.
    bool has(std::size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }

private:
    [[noreturn]] void refuse(std::size_t i, const char* expected) const;

    std::string function_;
    std::vector<const char*> names_;
    std::vector<const Value*> values_;
};

} // namespace trivium::jinja
