#pragma once
// Internal: judging what the tiny trainings of a check gave.
#include "check/cases.hpp"
#include "check/training.hpp"

namespace trivium {

/// What a rank says of a case.
struct CaseWord {
    TinyDifference difference;
    std::vector<std::pair<std::string, std::string>>
        bits; ///< of each part that it holds: which one, and a hash of its numbers
    double loss = 0, norm = 0, expected_loss = 0, expected_norm = 0; ///< of step difference.step
};

/// Case after case, what ranks said; what is wrong and what the cases have in common that are.
class CompositionJudge {
public:
    /// `facts`: of all ranks; outlive it
    explicit CompositionJudge(const std::vector<RankFacts>& facts) : facts_(facts) {}
    /// `words`: by rank of the case's grid.
    void add(const CheckCase& c, const std::vector<CaseWord>& words);
    void report(CheckReport& report) const;
    std::size_t cases() const { return cases_; }

private:
    /// One way to be wrong.
    struct Fault {
        std::size_t cases = 0;
        std::vector<int> ranks; ///< of the world, those concerned
        std::string first_case, expected, seen;
        std::vector<std::vector<std::string>> traits; ///< by case
    };
    void note(Fault& fault, const CheckCase& c, const std::vector<int>& ranks, const std::string& expected,
              const std::string& seen);
    bool add_replicas(const CheckCase& c, const std::vector<CaseWord>& words);
    std::string in_common(const Fault& fault) const;

    const std::vector<RankFacts>& facts_;
    std::size_t cases_ = 0;
    std::vector<std::vector<std::string>> sound_; ///< traits of the cases that were right
    Fault initial_, replicas_, answers_, parameters_;
};

} // namespace trivium
