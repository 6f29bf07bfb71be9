#include "ir/text/attribute_text.hpp"

#include "base/check.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <charconv>

namespace trivium {

namespace {

constexpr std::string_view formats[] = {"none", "e4m3", "e5m2"};

// One pair of functions per type: `print` returns the text without quotes; `read` returns nullopt if the text
// is not of the type. `expected` describes the type.

std::string print(i64 value) { return std::to_string(value); }
std::string print(double value) { return print_real(value); }
std::string print(const std::string& value) { return value; }
std::string print(DType value) { return name_of(value); }
std::string print(Combine value) { return std::string(name_of(value)); }
std::string print(Space value) { return std::string(name_of(value)); }
std::string print(const Rule& value) { return to_text(value); }
std::string print(const Fp8Formats& value)
{
    return str(formats[static_cast<int>(value[0])], " ", formats[static_cast<int>(value[1])]);
}
std::string print(const std::vector<i64>& value) { return print_numbers(value); }
std::string print(const std::vector<double>& value)
{
    std::string text;
    for (const double number : value)
        text += (text.empty() ? "" : " ") + print_real(number);
    return text;
}
std::string print(bool value) { return value ? "1" : "0"; }
std::string print(RopeKind value) { return std::string(name_of(value)); }

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T>;

template <class Number>
std::optional<Number> read_number(std::string_view text)
{
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<i64> read(const AttrText& field, i64) { return read_number<i64>(field.text); }
std::optional<double> read(const AttrText& field, double)
{
    return read_number<i64>(field.text) ? std::nullopt : read_number<double>(field.text);
}
std::optional<std::string> read(const AttrText& field, const std::string&) { return field.text; }
std::optional<DType> read(const AttrText& field, DType) { return tensor_type_named(field.text); }
std::optional<Combine> read(const AttrText& field, Combine) { return combine_named(field.text); }
std::optional<Space> read(const AttrText& field, Space)
{
    for (const Space space : {Space::device, Space::host})
        if (field.text == name_of(space))
            return space;
    return {};
}
std::optional<Fp8Formats> read(const AttrText& field, Fp8Formats)
{
    for (const Fp8 a : {Fp8::e4m3, Fp8::e5m2})
        for (const Fp8 b : {Fp8::e4m3, Fp8::e5m2})
            if (field.text == print(Fp8Formats{a, b}))
                return Fp8Formats{a, b};
    return {};
}
std::optional<RopeKind> read(const AttrText& field, RopeKind) { return value_named<RopeKind>(field.text); }
std::optional<bool> read(const AttrText& field, bool)
{
    return field.text == "0" || field.text == "1" ? std::optional(field.text == "1") : std::nullopt;
}
/// Numbers, separated by one space each.
template <class Number>
std::optional<std::vector<Number>> read(const AttrText& field, const std::vector<Number>&)
{
    std::vector<Number> numbers;
    std::string_view rest = field.text;
    while (!rest.empty()) {
        const std::string_view one = rest.substr(0, rest.find(' '));
        const auto number = read_number<Number>(one);
        const bool another = one.size() < rest.size(); // a number follows each space
        if (!number || (another && one.size() + 1 == rest.size()))
            return {};
        numbers.push_back(*number);
        rest.remove_prefix(one.size() + (another ? 1 : 0));
    }
    return numbers;
}

struct Form {
    const char *form, *remedy;
};
Form expected(i64) { return {"an integer", "write it without quotes, like 3"}; }
Form expected(double) { return {"a real number", "write it with a point, like 1.0"}; }
Form expected(const std::string&) { return {"a string", "put it in quotes"}; }
Form expected(DType) { return {"an element type", R"(write "f64", "f32", "bf16" or "i32")"}; }
Form expected(Combine) { return {R"(one of "sum", "lse", "max", "min", "product")", "write one of these"}; }
Form expected(Space) { return {R"(one of "device", "host")", "write one of these"}; }
Form expected(Fp8Formats)
{
    return {R"(one of "e4m3 e4m3", "e4m3 e5m2", "e5m2 e4m3", "e5m2 e5m2")", "write one of these"};
}
Form expected(const std::vector<i64>&)
{
    return {"integers, separated by one space", R"(write, for example, "0 1 0")"};
}
Form expected(const std::vector<double>&)
{
    return {"numbers, separated by one space", R"(write, for example, "1.0 1.25")"};
}
Form expected(bool) { return {"0 or 1", "write one of these without quotes"}; }
Form expected(RopeKind)
{
    return {R"(one of "none", "linear", "dynamic", "yarn", "longrope", "llama3")", "write one of these"};
}

template <class T>
T value_of(const AttrText& field)
{
    const Form form = expected(T{});
    if (field.quoted == is_number<T>)
        refuse_attribute(field.place, field.name, field.text, form.form, form.remedy);
    if (auto value = read(field, T{}))
        return *std::move(value);
    refuse_attribute(field.place, field.name, field.text, form.form, form.remedy);
}
template <>
Rule value_of<Rule>(const AttrText& field)
{
    if (!field.quoted)
        refuse_attribute(field.place, field.name, field.text, "a factor rule", "put it in quotes");
    return {field.text, field.place};
}

template <class T>
std::string print_field(const std::string& name, const T& value)
{
    return name + (is_number<T> ? "=" + print(value) : "=\"" + print(value) + '"');
}

[[noreturn]] void refuse_twice(const AttrText& field)
{
    throw UserError({field.place, str("the attribute '", field.name, "' appears twice"), "", "keep one"});
}

} // namespace

void refuse_attribute(const std::string& place, const std::string& name, const std::string& text,
                      const std::string& expected, const std::string& remedy)
{
    throw UserError(
        {place, str("its attribute '", name, "' is '", text, "', must be ", expected), "", remedy});
}

std::string print_real(double value)
{
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    std::string out(text, end);
    return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

std::string print_numbers(const std::vector<i64>& numbers)
{
    std::string text;
    for (const i64 number : numbers)
        text += (text.empty() ? "" : " ") + std::to_string(number);
    return text;
}

namespace {

/// One integer may stand without quotes.
std::vector<i64> list_of(const AttrText& field, bool single)
{
    if (single || !field.quoted)
        return {value_of<i64>(field)};
    return value_of<std::vector<i64>>(field);
}

/// Whether the field is a list.
bool take_list(const AttrText& field, NumberLists& lists)
{
    for (const ListName& list : list_names)
        if (field.name == list.name) {
            if (lists.find(list.attr))
                refuse_twice(field);
            lists.set(list.attr, list_of(field, list.single));
            return true;
        }
    return false;
}

} // namespace

std::string to_text(const Attributes& attributes)
{
    std::string text;
    const auto append = [&](const std::string& field) { text += (text.empty() ? "{" : ", ") + field; };
    each_attribute([&](Attr, const char* name, auto member) {
        const auto& value = attributes.*member;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, FactorSizes>) {
            for (const FactorSize& size : value)
                append(print_field(size.factor + name, size.size));
        } else if (value) {
            append(print_field(name, *value));
        }
    });
    for (const NumberLists::Entry& list : attributes.lists.entries()) {
        const ListName& name = list_name(list.attr);
        append(name.single ? print_field(name.name, list.numbers.at(0))
                           : print_field(name.name, list.numbers));
    }
    return text.empty() ? "" : text + "}";
}

Attributes parse_attributes(const std::vector<AttrText>& fields)
{
    Attributes made;
    for (const AttrText& field : fields) {
        bool known = take_list(field, made.lists);
        each_attribute([&](Attr, const char* name, auto member) {
            auto& value = made.*member;
            if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, FactorSizes>) {
                if (field.name != name)
                    return;
                if (value)
                    refuse_twice(field);
                value = value_of<typename std::decay_t<decltype(value)>::value_type>(field);
                known = true;
            }
        });
        if (known)
            continue;
        if (field.quoted || !read_number<i64>(field.text)) {
            std::vector<std::string> names;
            for (const ListName& list : list_names)
                names.emplace_back(list.name);
            each_attribute([&](Attr, const char* name, auto) { names.emplace_back(name); });
            throw UserError(
                {field.place, str("there is no attribute '", field.name, "'"),
                 "any other name is a factor, whose size is an integer",
                 did_you_mean(field.name, names, "see docs/ops.md for the attributes of each op")});
        }
        constexpr std::string_view offset = "_offset";
        const bool is_offset = field.name.ends_with(offset) && field.name.size() > offset.size();
        (is_offset ? made.offsets : made.sizes)
            .push_back({field.name.substr(0, field.name.size() - (is_offset ? offset.size() : 0)),
                        value_of<i64>(field)});
    }
    return made;
}

std::string to_text(const Init& init)
{
    return std::visit(
        [](const auto& content) -> std::string {
            using Content = std::decay_t<decltype(content)>;
            if constexpr (std::is_same_v<Content, std::monostate>) {
                return "";
            } else {
                std::string members;
                Content::keys(content, [&](const char* name, const auto& value, Bound, const auto&... usual) {
                    if (!((value == usual) || ...))
                        members += (members.empty() ? "" : ", ") + print_field(name, value);
                });
                return str(Content::name, "(", members, ")");
            }
        },
        init);
}

namespace {

template <class Content>
Init parse_members(const std::string& place, const std::vector<AttrText>& fields)
{
    Content made;
    Content::keys(made, [&](const char* name, auto& value, Bound, const auto&... usual) {
        const auto named = [&](const AttrText& field) { return field.name == name; };
        const auto field = std::find_if(fields.begin(), fields.end(), named);
        if (field == fields.end() && sizeof...(usual) > 0)
            return;
        if (field == fields.end())
            throw UserError({place, str(Content::name, " has no attribute '", name, "'"), "",
                             str("write ", Content::name, "(", name, "=…)")});
        if (const auto again = std::find_if(field + 1, fields.end(), named); again != fields.end())
            refuse_twice(*again);
        value = value_of<std::decay_t<decltype(value)>>(*field);
    });
    for (const AttrText& field : fields) {
        bool known = false;
        Content::keys(made, [&](const char* name, auto&, Bound, const auto&...) {
            known = known || field.name == name;
        });
        if (!known)
            throw UserError({field.place,
                             str(Content::name, " does not take an attribute '", field.name, "'"), "",
                             "remove it"});
    }
    return made;
}

} // namespace

Init parse_init(const std::string& kind, const std::string& place, const std::vector<AttrText>& fields)
{
    if (kind == NormalInit::name)
        return parse_members<NormalInit>(place, fields);
    if (kind == UniformInit::name)
        return parse_members<UniformInit>(place, fields);
    if (kind == FillInit::name)
        return parse_members<FillInit>(place, fields);
    if (kind == RopeTableInit::name)
        return parse_members<RopeTableInit>(place, fields);
    throw UserError({place, str("there is no initialiser '", kind, "'"), "",
                     "use normal(std=…), uniform(bound=…), fill(value=…) or rope_table(…)"});
}

std::string to_text(const ParameterUpdate& update)
{
    const UpdateRow& row = row_of(update.kind);
    if (!row.name)
        return "";
    return str(row.name, "(", row.number ? print_field(row.number, update.number) : "", ")");
}

ParameterUpdate parse_update(const std::string& kind, const std::string& place,
                             const std::vector<AttrText>& fields)
{
    std::string forms;
    for (const UpdateRow& row : update_rows) {
        if (!row.name)
            continue;
        const std::string form = str(row.name, "(", row.number ? str(row.number, "=…") : "", ")");
        if (kind == row.name) {
            if (!row.number && fields.empty())
                return {row.kind, 0};
            if (!row.number)
                throw UserError(
                    {place, str("the update ", kind, " takes nothing"), "", "write update " + form});
            if (fields.size() != 1 || fields[0].name != row.number)
                throw UserError(
                    {place, str("the update ", kind, " takes one number"), "", "write update " + form});
            return {row.kind, value_of<double>(fields[0])};
        }
        forms += (forms.empty() ? "" : " or ") + form;
    }
    throw UserError({place, str("there is no update '", kind, "'"),
                     "a parameter without one is changed by the optimizer", "use " + forms});
}

} // namespace trivium
