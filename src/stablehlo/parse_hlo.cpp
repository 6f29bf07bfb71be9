#include "stablehlo/hlo_text.hpp"

#include "ir/limits.hpp"

#include <algorithm>

namespace trivium {

namespace {

class Parser {
public:
    Parser(std::string_view text, const std::string& file) : t_(text, file) {}

    HloModule module()
    {
        while (!t_.done())
            top_level();
        for (HloFunction& function : made_.functions)
            resolve(function.body);
        return std::move(made_);
    }

private:
    void top_level()
    {
        if (t_.sees("{-#")) { // resources, which dense_resource refers to
            while (!t_.done() && !t_.take("#-}"))
                skip_resource();
        } else if (t_.sees("#")) {
            alias();
        } else if (t_.take("module") || t_.take("builtin.module")) {
            if (t_.sees("@"))
                made_.name = t_.value(false).text;
            if (t_.take("attributes"))
                dictionary();
            t_.want("{");
            while (!t_.take("}"))
                top_level();
            location();
        } else if (t_.take("sdy.mesh")) {
            const std::string name = t_.value(false).text;
            t_.want("=");
            made_.meshes[name] = t_.value(false);
            if (t_.peek() == '{')
                dictionary();
            location();
        } else if (t_.sees("func.func")) {
            function();
        } else {
            t_.fail("expected a function (func.func)");
        }
    }

    void skip_resource()
    {
        if (t_.peek() == '"')
            t_.quoted();
        else if (const char c = t_.peek(); !t_.take({&c, 1})) // the first of several letters or digits
            t_.word();
    }

    void alias()
    {
        t_.want("#");
        const std::string name = "#" + t_.word();
        t_.want("=");
        if (t_.take("loc"))
            made_.aliases[name] = t_.balanced('(', ')');
        else
            made_.aliases[name] = t_.value(true).text;
    }

    /// The text of loc(…), if it follows.
    std::string location() { return t_.take("loc") ? t_.balanced('(', ')') : ""; }

    HloAttribute dictionary(std::string_view open = "{", std::string_view close = "}")
    {
        HloAttribute read = t_.dictionary(open, close);
        if (const HloAttribute* sharding = read.find("mhlo.sharding"))
            made_.device_shardings.push_back(sharding->text);
        return read;
    }

    HloArgument argument()
    {
        HloArgument made;
        made.name = t_.value_name();
        t_.want(":");
        made.type = t_.type();
        if (t_.peek() == '{')
            made.attributes = dictionary();
        made.location = location();
        return made;
    }

    std::vector<HloArgument> arguments()
    {
        std::vector<HloArgument> all;
        t_.want("(");
        t_.items(")", [&] { all.push_back(argument()); });
        return all;
    }

    void function()
    {
        HloFunction made;
        made.line = t_.line();
        t_.want("func.func");
        made.is_public = t_.take("public");
        const bool is_private = !made.is_public && t_.take("private");
        if (t_.peek() != '@')
            t_.fail("expected the name of a function");
        made.name = t_.value(false).text;
        made.is_public = made.is_public || (!is_private && made.name == "main");
        made.body.arguments = arguments();
        if (t_.take("->")) {
            const auto result = [&] {
                made.result_types.push_back(t_.type());
                made.result_attributes.push_back(t_.peek() == '{' && in_parentheses_ ? dictionary()
                                                                                     : HloAttribute{});
                location();
            };
            in_parentheses_ = t_.take("(");
            if (!in_parentheses_)
                result();
            else
                t_.items(")", result);
        }
        if (t_.take("attributes"))
            dictionary();
        made.body.ops = block();
        location();
        made_.functions.push_back(std::move(made));
    }

    /// { ops }
    std::vector<HloOp> block()
    {
        t_.want("{");
        return ops_until_brace();
    }

    std::vector<HloOp> ops_until_brace()
    {
        if (++depth_ > 32)
            t_.fail("has more than 32 regions within each other");
        std::vector<HloOp> ops;
        while (!t_.take("}")) {
            if (++ops_ > max_text_ops)
                t_.fail(str("has more than ", max_text_ops, " ops"), "use a smaller program");
            ops.push_back(operation());
        }
        --depth_;
        return ops;
    }

    HloRegion region()
    {
        HloRegion made;
        t_.want("{");
        if (t_.take("^")) {
            t_.word();
            if (t_.peek() == '(')
                made.arguments = arguments();
            t_.want(":");
        }
        made.ops = ops_until_brace();
        return made;
    }

    HloOp operation()
    {
        HloOp op;
        op.line = t_.line();
        while (t_.peek() == '%') {
            const std::string name = t_.value_name();
            if (t_.take(":")) {
                const i64 count = t_.integer();
                if (count < 1 || count > static_cast<i64>(max_text_operands))
                    t_.fail(str("an op with ", count, " results"));
                for (i64 i = 0; i < count; ++i)
                    op.results.push_back(str(name, "#", i));
            } else {
                op.results.push_back(name);
            }
            t_.take(",");
        }
        if (!op.results.empty())
            t_.want("=");
        if (t_.peek() == '"') {
            op.name = t_.quoted();
            generic(op);
        } else {
            op.name = t_.word();
            if (op.name == "call" || op.name == "return")
                op.name = "func." + op.name;
            pretty(op);
        }
        location();
        if (op.result_types.size() < op.results.size())
            t_.fail(
                str(op.name, " has ", op.results.size(), " results, but ", op.result_types.size(), " types"));
        return op;
    }

    void merge(HloOp& op, HloAttribute attributes)
    {
        for (std::size_t i = 0; i < attributes.names.size(); ++i)
            set(op, attributes.names[i], std::move(attributes.items[i]));
    }
    static void set(HloOp& op, const std::string& name, HloAttribute value)
    {
        op.attributes.kind = HloAttribute::Kind::dictionary;
        op.attributes.names.push_back(name);
        op.attributes.items.push_back(std::move(value));
    }
    static HloAttribute word(const std::string& text)
    {
        HloAttribute made;
        made.text = text;
        return made;
    }

    void generic(HloOp& op)
    {
        t_.want("(");
        t_.items(")", [&] { op.operands.push_back(t_.operand()); });
        if (t_.sees("<{"))
            merge(op, dictionary("<{", "}>"));
        if (t_.take("("))
            t_.items(")", [&] { op.regions.push_back(region()); });
        if (t_.peek() == '{')
            merge(op, dictionary());
        t_.want(":");
        signature(op);
    }

    std::vector<HloType> types_in_parentheses()
    {
        std::vector<HloType> types;
        t_.want("(");
        t_.items(")", [&] { types.push_back(t_.type()); });
        return types;
    }

    /// What follows the ':' of an op: "(types) -> types", "type", or "type, type" of the results, or of
    /// operands with those of the result at the end.
    void signature(HloOp& op)
    {
        std::vector<HloType> types;
        if (t_.peek() == '(') {
            types = types_in_parentheses();
        } else {
            do
                types.push_back(t_.type());
            while (t_.take(","));
        }
        if (t_.take("->")) {
            types.clear();
            if (t_.peek() == '(')
                types = types_in_parentheses();
            else
                types.push_back(t_.type());
            op.result_types = std::move(types);
        } else if (types.size() == op.results.size()) {
            op.result_types = std::move(types);
        } else if (!types.empty()) {
            op.result_types.assign(op.results.size(), types.back());
        }
    }

    void pretty(HloOp& op)
    {
        if (op.name == "stablehlo.constant")
            return constant(op);
        if (op.name == "stablehlo.reduce")
            return reduce(op);
        if (op.name == "stablehlo.while")
            return while_loop(op);
        // Operands, words, attributes and types in any order, up to the types.
        HloAttribute words{HloAttribute::Kind::list};
        const bool returns = op.name.ends_with(".return");
        while (!t_.take(":")) {
            const char c = t_.peek();
            if (returns && (c == '}' || t_.sees("loc")))
                return;
            if (c == '%')
                op.operands.push_back(t_.operand());
            else if (c == '(' && op.name == "sdy.manual_computation" && op.attributes.find("manual_axes"))
                manual(op);
            else if (c == '(')
                inner(op);
            else if (c == '{')
                merge(op, dictionary());
            else if (c == '@')
                set(op, "callee", t_.value(false));
            else if (c == '[')
                set(op, "ranges", word(t_.balanced('[', ']')));
            else if (c == '<' || c == '#')
                set(op, "value", t_.value(false));
            else if (c == '"')
                set(op, "name", t_.value(false));
            else if (t_.take(","))
                ;
            else if (t_.sees_word())
                named(op, words);
            else
                t_.fail(str(op.name, ": expected ':' and the types of its results"));
        }
        if (!words.items.empty())
            set(op, "words", std::move(words));
        signature(op);
    }

    /// ( operands and attributes )
    void inner(HloOp& op)
    {
        t_.want("(");
        HloAttribute words;
        t_.items(")", [&] {
            if (t_.peek() == '%')
                op.operands.push_back(t_.operand());
            else
                named(op, words);
        });
    }

    /// "name = value", or a word.
    void named(HloOp& op, HloAttribute& words)
    {
        const std::string name = t_.word();
        if (!t_.take("=")) {
            words.items.push_back(word(name));
            return;
        }
        if (name == "dim_numbers") { // [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]
            std::string text = "[" + t_.balanced('[', ']') + "]x[";
            t_.want("x");
            text += t_.balanced('[', ']') + "]->[";
            t_.want("->");
            return set(op, "dimension_numbers", word(text + t_.balanced('[', ']') + "]"));
        }
        HloAttribute value = t_.value(false);
        if (t_.take("x")) { // batching_dims = [0] x [0]
            HloAttribute pair{HloAttribute::Kind::list};
            pair.items = {std::move(value), t_.value(false)};
            value = std::move(pair);
        }
        set(op, name, std::move(value));
    }

    void constant(HloOp& op)
    {
        if (t_.peek() == '{')
            merge(op, dictionary());
        HloAttribute value = t_.value(true);
        if (value.kind != HloAttribute::Kind::literal)
            t_.fail("a constant is not dense<…>");
        op.result_types = {value.literal.type};
        set(op, "value", std::move(value));
    }

    /// stablehlo.reduce(%x init: %a), (%y init: %b) applies OP across dimensions = [1] : types, or with a
    /// reducer.
    void reduce(HloOp& op)
    {
        std::vector<std::string> starts;
        do {
            t_.want("(");
            op.operands.push_back(t_.operand());
            t_.want("init");
            t_.want(":");
            starts.push_back(t_.operand());
            t_.want(")");
        } while (t_.take(","));
        op.operands.insert(op.operands.end(), starts.begin(), starts.end());
        std::string applied;
        if (t_.take("applies"))
            applied = t_.word();
        t_.want("across");
        t_.want("dimensions");
        t_.want("=");
        set(op, "dimensions", t_.value(false));
        if (t_.peek() == '{')
            merge(op, dictionary());
        t_.want(":");
        signature(op);
        HloRegion body;
        if (!applied.empty()) {
            const HloType scalar{op.result_types.empty() ? HloElement::f32 : op.result_types[0].element, {}};
            body.arguments = {{"%lhs", scalar}, {"%rhs", scalar}};
            HloOp apply{applied, op.line, {"%applied"}, {"%lhs", "%rhs"}};
            apply.result_types = {scalar};
            HloOp end{"stablehlo.return", op.line, {}, {"%applied"}};
            body.ops = {std::move(apply), std::move(end)};
        } else {
            location();
            t_.want("reducer");
            std::vector<HloArgument> right;
            while (t_.peek() == '(') { // (left, right) of each operand
                std::vector<HloArgument> pair = arguments();
                if (pair.size() != 2)
                    t_.fail("a reducer has two arguments for each operand");
                body.arguments.push_back(std::move(pair[0]));
                right.push_back(std::move(pair[1]));
            }
            body.arguments.insert(body.arguments.end(), right.begin(), right.end());
            body.ops = block();
        }
        op.regions.push_back(std::move(body));
    }

    /// stablehlo.while(%a = %b, …) : types cond { … } do { … }
    void while_loop(HloOp& op)
    {
        std::vector<HloArgument> held;
        t_.want("(");
        t_.items(")", [&] {
            HloArgument argument;
            argument.name = t_.value_name();
            t_.want("=");
            op.operands.push_back(t_.operand());
            held.push_back(std::move(argument));
        });
        if (t_.take(":"))
            signature(op);
        if (t_.take("attributes"))
            merge(op, dictionary());
        for (std::size_t i = 0; i < held.size() && i < op.result_types.size(); ++i)
            held[i].type = op.result_types[i];
        for (const char* part : {"cond", "do"}) {
            t_.want(part);
            op.regions.push_back({held, block()});
        }
    }

    /// The region of a manual computation, after its operands and attributes.
    void manual(HloOp& op)
    {
        HloRegion body;
        body.arguments = arguments();
        body.ops = block();
        op.regions.push_back(std::move(body));
    }

    /// Names of arguments: the aliases of locations are at the end of the text.
    void resolve(HloRegion& body)
    {
        for (HloArgument& argument : body.arguments)
            for (int i = 0; i < 4 && argument.location.starts_with("#"); ++i) {
                const auto found = made_.aliases.find(argument.location);
                argument.location = found == made_.aliases.end() ? "" : found->second;
            }
    }

    HloText t_;
    HloModule made_;
    std::size_t ops_ = 0;
    int depth_ = 0;
    bool in_parentheses_ = false;
};

} // namespace

HloModule parse_hlo(std::string_view text, const std::string& file)
{
    if (text.size() > max_text_bytes)
        throw UserError({file, str("has more than ", max_text_bytes, " bytes"), "", "use a smaller program"});
    return Parser(text, file).module();
}

} // namespace trivium
