#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/attribute_text.hpp"
#include "ir/text/repeat.hpp"
#include "ir/text/text.hpp"
#include "ir/text/text_cursor.hpp"

#include <algorithm>
#include <unordered_map>

namespace trivium {

namespace {

class Parser {
public:
    Parser(std::string_view text, const std::string& file, const TextSettings& settings)
        : text_(text), file_(file), settings_(settings), meanings_{{}, settings.compute}
    {
        constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
        if (text_.starts_with(byte_order_mark))
            text_.remove_prefix(byte_order_mark.size());
    }

    Graph run()
    {
        check_text();
        graph_.file = file_;
        int last = 0;
        each_line(text_, file_, meanings_.sizes, [&](std::string_view text, int number) {
            last = std::max(last, number);
            Cursor cursor(text, file_, number, meanings_);
            if (!cursor.done())
                line(cursor);
        });
        if (in_region_)
            throw UserError(
                {str(file_, ":", last), "ends within a region", "a '{' has no '}'", "close the region"});
        if (graph_.name.empty())
            throw UserError({str(file_, ":1"), "is not a graph", "it has no line 'graph NAME'",
                             "write a graph with `trivium explain CONFIG.toml --dump`"});
        return std::move(graph_);
    }

private:
    /// Refuses text that is too long, or binary.
    void check_text() const
    {
        if (text_.size() > max_text_bytes)
            throw UserError({file_, str("has ", text_.size(), " bytes, more than ", max_text_bytes),
                             "the length of a graph's text is limited", "use a smaller graph"});
        if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos)
            throw UserError({str(file_, ":1"), "is empty", "a graph begins with a line 'graph NAME'",
                             "write a graph with `trivium explain CONFIG.toml --dump`"});
        int line = 1;
        bool comment = false;
        for (const char c : text_) {
            const auto byte = static_cast<unsigned char>(c);
            const bool space = c == '\n' || c == '\t' || c == '\r';
            if ((byte < 0x20 && !space) || byte == 0x7f || (byte >= 0x80 && !comment))
                throw UserError({str(file_, ":", line),
                                 str("byte ", int{byte}, " is not part of a graph's text"),
                                 "outside comments, a graph is plain ASCII", "name a text file"});
            comment = c == '\n' ? false : comment || c == '#';
            line += c == '\n';
        }
    }

    void line(Cursor& c)
    {
        in_region_ ? inside(c) : outside(c);
        if (!c.done())
            c.fail("there is text after the end of the statement", "remove it");
    }

    void inside(Cursor& c)
    {
        if (c.take("}")) {
            in_region_ = false;
            leave_context();
        } else
            c.take("@") ? context(c) : op(c);
    }

    void outside(Cursor& c)
    {
        if (c.starts_with('%')) // an op outside the regions is of the microbatch
            return op(c);
        if (c.take("@"))
            return context(c);
        const std::string key = c.word();
        if (key == "graph") {
            once(c, graph_.name.empty(), "a name", "graph NAME");
            graph_.name = c.word();
        } else if (key == "mesh")
            mesh(c);
        else if (key == "at")
            place(c);
        else if (key == "size")
            size(c);
        else if (key == "stages") {
            once(c, graph_.stage_of_block.empty(), "stages", "stages");
            for (; !c.done(); c.limit(graph_.stage_of_block.size(), max_blocks + 1, "blocks"))
                graph_.stage_of_block.push_back(static_cast<int>(c.whole(0, max_blocks - 1)));
        } else if (key == "carried")
            carried(c);
        else if (key == "output")
            output(c);
        else if (!enter(c, key))
            given(c, key);
    }

    void leave_context()
    {
        region_ = Region::microbatch;
        phase_ = Phase::forward;
        block_ = 0;
        scope_.clear();
    }

    void size(Cursor& c)
    {
        while (!c.done()) {
            const std::string name = c.axis();
            if (!std::ranges::all_of(name, [](char ch) { return is_of_size(ch); }) ||
                (name[0] >= '0' && name[0] <= '9'))
                c.fail(str("'", name, "' is not the name of a size"),
                       "use letters, digits and '_', a letter first");
            if (meanings_.sizes.contains(name))
                c.fail(str("the size '", name, "' is declared twice"), "keep one of the two");
            c.want("=");
            const auto set = settings_.sizes.find(name);
            if (set != settings_.sizes.end())
                c.word(); // an expression that may not hold for the sizes that are set
            meanings_.sizes[name] = set == settings_.sizes.end() ? c.whole(1, max_elements) : set->second;
        }
        if (settings_.declared)
            *settings_.declared = meanings_.sizes;
    }
    static bool is_of_size(char c)
    {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }

    bool enter(Cursor& c, const std::string& key)
    {
        for (const Region region : {Region::prologue, Region::microbatch, Region::epilogue})
            if (key == name_of(region)) {
                c.want("{");
                leave_context();
                region_ = region;
                return in_region_ = true;
            }
        return false;
    }

    void output(Cursor& c)
    {
        c.limit(graph_.outputs.size(), max_text_values, "outputs");
        graph_.outputs.push_back(known(c));
    }

    static void once(Cursor& c, bool first, const char* what, const char* key)
    {
        if (!first)
            c.fail(str("the graph already has ", what), str("keep one line '", key, "'"));
    }

    void mesh(Cursor& c)
    {
        once(c, graph_.mesh.axes.empty(), "a mesh", "mesh");
        graph_.mesh_line = c.number();
        while (!c.done()) {
            const std::string axis = c.axis();
            if (axis.find(':') != std::string::npos)
                c.fail(str("mesh axis '", axis, "' has the name of a part of an axis"), "rename it");
            c.want("=");
            graph_.mesh.axes.push_back({axis, c.whole()});
            check_mesh(graph_.mesh, str(file_, ":", c.number(), ": "));
        }
    }

    void place(Cursor& c)
    {
        once(c, graph_.at.empty(), "coordinates", "at");
        for (const MeshAxis& axis : graph_.mesh.axes) {
            if (const std::string name = c.done() ? "" : c.axis(); name != axis.name)
                c.fail(str("expected the coordinate on axis '", axis.name, "'"),
                       "name each axis of the mesh, in order");
            c.want("=");
            graph_.at.push_back(c.whole());
            if (graph_.at.back() < 0 || graph_.at.back() >= axis.size)
                c.fail(str("coordinate ", graph_.at.back(), " is outside axis '", axis.name, "'"),
                       str("use 0 to ", axis.size - 1));
        }
    }

    ValueId known(Cursor& c)
    {
        const std::string name = c.name();
        const auto found = ids_.find(name);
        if (found == ids_.end()) {
            std::vector<std::string> names;
            for (const Value& value : graph_.values)
                names.push_back(value.name);
            c.fail(str("%", name, " is not defined above"),
                   did_you_mean(name, names, "define a value before it is used"));
        }
        return found->second;
    }

    ValueId define(Cursor& c, Value value)
    {
        const ValueId id(graph_.values.size());
        if (!ids_.emplace(value.name, id).second)
            c.fail(str("%", value.name, " is defined twice"), "rename one of the two");
        c.limit(graph_.values.size(), max_text_values, "values");
        value.line = c.number();
        graph_.values.push_back(std::move(value));
        return id;
    }

    /// Reads the type and the sharding of `v`.
    void typed(Cursor& c, Value& v) const
    {
        int batch = -1;
        v.type = c.type(&batch);
        v.sharding = c.sharding();
        std::vector<DimSharding>& dims = v.sharding.edit().dims;
        if (batch < 0 || settings_.batch_axes.empty() || (dims.empty() && v.role != Role::input))
            return;
        dims.resize(std::max(dims.size(), v.type.shape.size()), DimSharding{});
        std::vector<std::string>& axes = dims[static_cast<std::size_t>(batch)].axes;
        std::vector<std::string> all;
        for (const std::string& axis : settings_.batch_axes)
            if (std::ranges::none_of(
                    dims, [&](const DimSharding& d) { return std::ranges::count(d.axes, axis) > 0; }))
                all.push_back(axis);
        axes.insert(axes.begin(), all.begin(), all.end());
    }

    void given(Cursor& c, const std::string& key)
    {
        for (const Role role : {Role::input, Role::hyper, Role::parameter, Role::state, Role::constant,
                                Role::carry, Role::kept})
            if (key == name_of(role)) {
                Value v;
                v.role = role;
                v.lifetime = lifetime_of(role);
                v.name = c.name();
                c.want(":");
                typed(c, v);
                if (c.take("of")) {
                    const TensorType whole = c.type();
                    if (whole.dtype != v.type.dtype)
                        c.fail(str("the tensor over all ranks is ", whole, ", this rank's ", v.type),
                               "use the same element type for both");
                    v.whole = whole.shape;
                }
                if (c.take("on")) {
                    c.want(name_of(Space::host));
                    v.space = Space::host;
                }
                if (c.take("init")) {
                    const std::string kind = c.word(), here = c.place();
                    v.init = parse_init(kind, here, c.fields("(", ")"));
                }
                v.decay = c.take("decay");
                const i64 dims = std::ssize(v.type.shape);
                if (c.take("stack")) {
                    v.stack = static_cast<int>(c.whole(1, dims - 2));
                    c.want("rows");
                    v.rows = static_cast<int>(c.whole(1, dims - v.stack - 1));
                } else if (c.take("rows"))
                    v.rows = static_cast<int>(c.whole(1, dims - 1));
                if (c.take("update")) {
                    const std::string kind = c.word(), here = c.place();
                    v.update = parse_update(kind, here, c.fields("(", ")"));
                }
                define(c, std::move(v));
                return;
            }
        static const std::vector<std::string> keys{"graph",      "mesh",     "at",       "stages",   "input",
                                                   "hyper",      "kept",     "state",    "size",     "carry",
                                                   "parameter",  "constant", "prologue", "epilogue", "output",
                                                   "microbatch", "carried"};
        c.fail(str("has the unknown keyword '", key, "'"),
               did_you_mean(
                   key, keys,
                   "a line starts with graph, mesh, at, size, input, hyper, parameter, state, constant, "
                   "carry, a region, carried or output"));
    }

    void carried(Cursor& c)
    {
        const ValueId in = known(c);
        c.want("->");
        c.limit(graph_.carries.size(), max_text_values, "carries");
        graph_.carries.push_back({in, known(c), c.number()});
    }

    void context(Cursor& c)
    {
        const std::string phase = c.word();
        const Phase all[] = {Phase::forward, Phase::backward, Phase::weights, Phase::update};
        const auto* const at =
            std::find_if(std::begin(all), std::end(all), [&](Phase p) { return phase == name_of(p); });
        if (at == std::end(all))
            c.fail(str("there is no phase '", phase, "'"), "use forward, backward, weights or update");
        phase_ = *at;
        c.want("block");
        block_ = static_cast<int>(c.whole(0, max_blocks - 1));
        scope_ = c.done() ? "" : c.word();
    }

    void op(Cursor& c)
    {
        Op made;
        made.line = c.number();
        c.limit(graph_.ops.size(), max_text_ops, "ops");
        std::vector<std::string> results;
        if (c.starts_with('%')) {
            do {
                c.limit(results.size(), max_text_operands, "results");
                results.push_back(c.name());
            } while (c.take(","));
            c.want("=");
        }
        const std::string kind = c.word();
        const OpInfo* row = find_op(kind);
        if (!row)
            c.fail(str("there is no op '", kind, "'"),
                   did_you_mean(kind, op_names(), "see docs/ops.md for the ops"));
        made.kind = row->kind;
        c.want("(");
        while (!c.take(")")) {
            if (!made.operands.empty())
                c.want(",");
            c.limit(made.operands.size(), max_text_operands, "operands");
            made.operands.push_back(known(c));
        }
        if (c.take("+=")) {
            made.accumulate = true;
            made.operands.push_back(known(c));
        }
        made.attrs = parse_attributes(c.fields("{", "}"));
        made.region = region_;
        made.phase = phase_;
        made.block = block_;
        made.scope = scope_;
        if (!results.empty() && !c.take(":"))
            c.fail("expected ':'", "state the type of each result after a colon, like `: f32[8,16]`");
        for (std::size_t i = 0; i < results.size(); ++i) {
            if (i)
                c.want(",");
            Value v;
            v.name = results[i];
            typed(c, v);
            v.producer = OpId(graph_.ops.size());
            v.lifetime = result_lifetime(graph_, made, i);
            v.space = result_space(graph_, made);
            made.results.push_back(define(c, std::move(v)));
        }
        graph_.ops.push_back(std::move(made));
    }

    std::string_view text_;
    const std::string& file_;
    const TextSettings& settings_;
    Meanings meanings_;
    Graph graph_;
    std::unordered_map<std::string, ValueId> ids_;
    bool in_region_ = false;
    Region region_ = Region::microbatch;
    Phase phase_ = Phase::forward;
    int block_ = 0;
    std::string scope_;
};

} // namespace

Graph parse_graph(std::string_view text, const std::string& file, const TextSettings& settings)
{
    return Parser(text, file, settings).run();
}

} // namespace trivium
