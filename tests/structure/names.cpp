#include "names.hpp"

#include <algorithm>

namespace trivium::structure {

namespace {

bool quotes(const std::string& line, const std::string& word)
{
    return line.find("\"" + word + "\"") != std::string::npos;
}

} // namespace

Findings check_names(const std::vector<SourceFile>& files, const ForbiddenNames& names)
{
    Findings findings;
    const auto common = [&](const std::string& op) {
        return std::find(names.common.begin(), names.common.end(), op) != names.common.end();
    };
    for (const SourceFile& file : files) {
        const std::vector<std::string> lines = lines_of(without_comments(file.text));
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const auto found = [&](const std::string& what) {
                findings.push_back(file.path + ":" + std::to_string(i + 1) + ": a pass names " + what);
            };
            if (lines[i].find("OpKind::") != std::string::npos || has_word(lines[i], "find_op"))
                found("an op by its kind");
            if (lines[i].find("Family::") != std::string::npos)
                found("a model family");
            for (const std::string& op : names.ops)
                if (common(op) ? quotes(lines[i], op) : has_word(lines[i], op))
                    found("the op '" + op + "'");
            for (const std::string& model : names.models)
                if (has_word(lines[i], model))
                    found("the model '" + model + "'");
        }
    }
    return findings;
}

} // namespace trivium::structure
