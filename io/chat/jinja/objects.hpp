#pragma once
// Objects of a template: namespaces, loops, macros.
#include "io/chat/jinja/evaluator.hpp"

namespace trivium::jinja {

class Namespace final : public Object {
public:
    const char* type_name() const override { return "Namespace"; }
    bool is_callable() const override { return false; }
    std::optional<Value> attribute(std::string_view name) override;
    void set_attribute(const std::string& name, Value value) override;
    void clear() override { values.clear(); }

    std::vector<std::pair<std::string, Value>> values;
};

/// `loop`.
class Loop final : public Object {
public:
    Loop(std::vector<Value> items, const Statement& statement, std::shared_ptr<Scope> around, int depth);
    const char* type_name() const override { return "LoopContext"; }
    std::optional<Value> attribute(std::string_view name) override;
    Value call(Evaluator& evaluator, const Arguments& arguments) override;
    int depth() const override { return value_depth_; }
    void clear() override { last_changed.clear(); }

    const std::vector<Value>& items() const { return items_; }
    i64 index = 0; ///< of the current item
    std::vector<Value> last_changed;
    bool has_changed = false;

private:
    std::vector<Value> items_;
    const Statement& statement_;
    std::shared_ptr<Scope> around_;
    int depth_, value_depth_ = 1;
};

class Macro final : public Object {
public:
    Macro(const Statement& statement, std::shared_ptr<Scope> around)
        : statement_(statement), around_(std::move(around))
    {
    }
    const char* type_name() const override { return "Macro"; }
    std::optional<Value> attribute(std::string_view name) override;
    Value call(Evaluator& evaluator, const Arguments& arguments) override
    {
        return evaluator.run_macro(statement_, around_, arguments);
    }

private:
    const Statement& statement_;
    std::shared_ptr<Scope> around_;
};

} // namespace trivium::jinja
