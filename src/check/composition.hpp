#pragma once
// Internal: evaluates the results of the tiny trainings of a check.
#include "check/cases.hpp"
#include "check/training.hpp"

namespace trivium {

/// A rank's result for one case.
struct CaseResult {
    TinyDifference difference;
    std::vector<std::pair<std::string, std::string>>
        bits; ///< name and hash of the losses, of the norms and of each shard that the rank holds
    double loss = 0, norm = 0, expected_loss = 0, expected_norm = 0; ///< at step difference.step
};

/// Collects results case by case; reports faults and the settings that faulty cases share.
class CompositionJudge {
public:
    /// `facts`: by world rank; must outlive this object
    explicit CompositionJudge(const std::vector<RankFacts>& facts) : facts_(facts) {}
    /// `results`: by rank of the case's grid.
    void add(const CheckCase& c, const std::vector<CaseResult>& results);
    /// Adds a finding for each kind of fault that occurred.
    void report(CheckReport& report) const;
    std::size_t cases() const { return cases_; }

private:
    /// A kind of fault, over all cases.
    struct Fault {
        std::size_t cases = 0;
        std::vector<int> ranks; ///< affected world ranks
        std::string first_case, expected, seen;
        std::vector<std::vector<std::string>> traits; ///< of each case with this fault
    };
    void note(Fault& fault, const CheckCase& c, const std::vector<int>& ranks, const std::string& expected,
              const std::string& seen);
    bool add_replicas(const CheckCase& c, const std::vector<CaseResult>& results);
    std::string in_common(const Fault& fault) const;

    const std::vector<RankFacts>& facts_;
    std::size_t cases_ = 0;
    std::vector<std::vector<std::string>> sound_; ///< traits of the correct cases
    Fault initial_, replicas_, answers_, parameters_;
};

} // namespace trivium
