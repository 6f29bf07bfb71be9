#pragma once
// Runs a parsed template.
#include "io/chat/jinja/syntax.hpp"

#include <ctime>

namespace trivium::jinja {

/// raise_exception of a template.
struct Refusal {
    std::string message;
};

using Variables = std::vector<std::pair<std::string, Value>>;

/// The variables of a block, and those around it.
struct Scope {
    std::vector<std::pair<std::string, Value>> values;
    std::shared_ptr<Scope> outer;

    void set(const std::string& name, Value value);
};

class Evaluator {
public:
    /// `variables` must outlive this object.
    Evaluator(const Variables& variables, std::time_t now);
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;
    ~Evaluator();

    /// What the template prints. \throws Failure, Refusal; line() is then about where
    MarkedText run(const Syntax& syntax);
    int line() const { return line_; }
    std::time_t now() const { return now_; }

    // For filters, tests and functions. Each throws Failure.
    Value filtered(const std::string& name, const Value& input, const Arguments& arguments);
    /// Prints the macro's block with these arguments.
    Value run_macro(const Statement& macro, const std::shared_ptr<Scope>& around, const Arguments& arguments);
    /// Keeps the object, whose attributes may contain itself, until the end.
    void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

private:
    enum class Flow : std::uint8_t { onward, stop, next };
    class Enter;

    Flow run(const Block& block);
    Flow run(const Statement& statement);
    Flow run_branch(const Statement& statement);
    Flow run_loop(const Statement& statement);
    /// The expression of a capture or a filter block.
    Value of_block(const Statement& statement);
    /// What a block prints, within a scope of its own.
    MarkedText printed(const Block& block);
    void assign(const Target& target, const Value& value);

    Value evaluate(const Expression& expression);
    Value evaluate_parts(const Expression& expression);
    Value variable(const std::string& name) const;
    Value binary(const Expression& expression);
    /// With further keyword arguments.
    Value called(const Expression& call, std::vector<std::pair<std::string, Value>> more);
    Value macro_of(const Statement& statement);
    Arguments evaluated(const CallArguments& arguments);

    const Variables& variables_;
    std::time_t now_;
    std::shared_ptr<Scope> scope_;
    MarkedText* out_ = nullptr;
    int line_ = 1, nesting_ = 0;
    std::vector<std::shared_ptr<Object>> kept_;
};

using Filter = Value (*)(Evaluator& evaluator, const Value& input, const Arguments& arguments);
/// Null if there is none of this name.
Filter find_filter(std::string_view name);
/// `value is name(…)`. \throws Failure
bool is_so(std::string_view name, const Value& value, const Arguments& arguments);
} // namespace trivium::jinja
