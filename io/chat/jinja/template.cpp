#include "io/chat/jinja/template.hpp"

#include "base/check.hpp"
#include "io/files/utf8.hpp"

namespace trivium::jinja {

namespace {

constexpr std::size_t max_template = std::size_t{4} << 20;

Syntax parsed(std::string_view source, const std::string& place)
{
    if (source.size() > max_template)
        throw UserError(
            {place, str("has more than ", max_template >> 20, " MiB, too many for a chat template"), "", ""});
    if (const i64 invalid = first_invalid_utf8(source); invalid >= 0)
        throw UserError({place, str("is not UTF-8 at byte offset ", invalid), "a chat template is UTF-8 text",
                         "get the file again, or convert it"});
    if (source.find_first_not_of(" \t\r\n") == std::string_view::npos)
        throw UserError({place, "is empty", "a chat template is a text", "name another, or get it again"});
    try {
        return parse(source);
    } catch (const SyntaxError& error) {
        throw UserError({str(place, ":", error.line), "is not a valid chat template", error.problem,
                         "correct the template, or get the file again"});
    }
}

MarkedText words(const std::string& text, i32 message)
{
    MarkedText marked(text);
    if (message >= 0)
        marked.mark(0, marked.size(), Mark::Kind::words, message);
    return marked;
}

} // namespace

Template::Template(std::string_view source, std::string place)
    : place_(std::move(place)), syntax_(parsed(source, place_))
{
}

MarkedText Template::render(const Variables& variables, std::time_t now, i64 steps) const
{
    const WorkLimit limit(steps);
    Evaluator evaluator(variables, now);
    try {
        return evaluator.run(syntax_);
    } catch (const Refusal& refusal) {
        throw UserError({str(place_, ":", evaluator.line()),
                         "the chat template refuses the chat: " + refusal.message, "",
                         "change the messages as it asks, or use another template"});
    } catch (const Failure& failure) {
        throw UserError({str(place_, ":", evaluator.line()), "the chat template fails: " + failure.problem,
                         "", "check whether the template is meant for chats like this one"});
    }
}

Value value_of(const nlohmann::ordered_json& json, i32 message)
{
    using Type = nlohmann::ordered_json::value_t;
    switch (json.type()) {
    case Type::boolean: return json.get<bool>();
    case Type::number_integer: return json.get<i64>();
    case Type::number_unsigned:
        if (json.get<u64>() > static_cast<u64>(INT64_MAX))
            throw Failure{str("the integer ", json.get<u64>(), " does not fit 64 bits")};
        return json.get<i64>();
    case Type::number_float: return json.get<double>();
    case Type::string: return Value(words(json.get_ref<const std::string&>(), message));
    case Type::array: {
        std::vector<Value> items;
        for (const auto& item : json)
            items.push_back(value_of(item, message));
        return make_list(std::move(items));
    }
    case Type::object: {
        std::vector<std::pair<Value, Value>> items;
        for (const auto& [key, item] : json.items())
            items.emplace_back(Value(words(key, message)), value_of(item, message));
        return make_dict(std::move(items));
    }
    default: return {};
    }
}

} // namespace trivium::jinja
