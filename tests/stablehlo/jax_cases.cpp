#include "jax_cases.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trivium::jax {

std::vector<Case> read_cases(const std::string& folder)
{
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".cases")
            files.push_back(entry.path().string());
    std::ranges::sort(files);
    std::vector<Case> cases;
    for (const std::string& file : files) {
        std::ifstream in(file);
        bool values = false;
        for (std::string line; std::getline(in, line);) {
            if (line.starts_with("=== ")) {
                cases.push_back({line.substr(4), "", {}, {}, {}});
                values = false;
            } else if (line == "---") {
                values = true;
            } else if (!values) {
                cases.back().text += line + "\n";
            } else {
                std::istringstream words(line);
                std::string kind, dtype, word;
                int number = 0;
                words >> kind >> number >> dtype;
                CaseTensor tensor{tensor_type_named(dtype).value(), {}};
                while (words >> word) // "nan" and "inf", too
                    tensor.elements.push_back(std::stod(word));
                Case& to = cases.back();
                (kind == "in" ? to.in : kind == "out" ? to.out : to.gradient)[number] = std::move(tensor);
            }
        }
    }
    return cases;
}

} // namespace trivium::jax
