#pragma once
// Methods of texts, lists and dicts.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

/// `value.name`, to be called; nullopt if Python has no such method. Calling one that would change a list or
/// a dict fails, as in jinja2's immutable sandbox, as does one that is not supported.
std::optional<Value> method_of(const Value& value, const std::string& name);

/// The arguments of a call, bound to the parameters of a function.
class Parameters {
public:
    /// \throws Failure if there are too many or too few, or unknown ones
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
    std::string function_;
    std::vector<const char*> names_;
    std::vector<const Value*> values_;
};

} // namespace trivium::jinja
