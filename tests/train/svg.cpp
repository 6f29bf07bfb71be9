#include "svg.hpp"

#include "catch.hpp"

#include <algorithm>

std::vector<Rectangle> rectangles_of_svg(const std::string& text, const std::string& wanted)
{
    std::vector<std::string> open;
    std::vector<Rectangle> found;
    const auto attribute = [](const std::string& tag, const std::string& name) {
        const std::size_t at = tag.find(" " + name + "=\"");
        REQUIRE(at != std::string::npos);
        return tag.substr(at + name.size() + 3, tag.find('"', at + name.size() + 3) - at - name.size() - 3);
    };
    std::size_t roots = 0;
    bool in_rectangle = false;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '&') {
            const std::string entity = text.substr(at, text.find(';', at) - at + 1);
            REQUIRE((entity == "&lt;" || entity == "&gt;" || entity == "&amp;" || entity == "&quot;" ||
                     entity == "&#39;"));
        }
        if (text[at] != '<') {
            ++at;
            continue;
        }
        const std::size_t end = text.find('>', at);
        REQUIRE(end != std::string::npos);
        const std::string tag = text.substr(at + 1, end - at - 1);
        at = end + 1;
        REQUIRE(std::count(tag.begin(), tag.end(), '"') % 2 == 0);
        REQUIRE(tag.find('<') == std::string::npos);
        if (tag[0] == '/') {
            REQUIRE(!open.empty());
            REQUIRE(open.back() == tag.substr(1));
            open.pop_back();
            continue;
        }
        const std::string name = tag.substr(0, tag.find_first_of(" /"));
        roots += open.empty() ? 1 : 0;
        if (tag.back() != '/')
            open.push_back(name);
        if (name == "title" && in_rectangle)
            found.back().hint = text.substr(at, text.find('<', at) - at);
        else if (name == "rect")
            in_rectangle = tag.find("class=\"" + wanted + " ") != std::string::npos;
        if (name == "rect" && in_rectangle)
            found.push_back({std::stod(attribute(tag, "x")), std::stod(attribute(tag, "y")),
                             std::stod(attribute(tag, "width")), std::stod(attribute(tag, "height")),
                             attribute(tag, "class"), ""});
    }
    REQUIRE(open.empty());
    REQUIRE(roots == 1);
    return found;
}
