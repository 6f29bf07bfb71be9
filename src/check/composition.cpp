#include "check/composition.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "check/arithmetic.hpp"
#include "check/parts.hpp"
#include "mpi/records.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace trivium {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TinyDifference, losses, norms, step, parameters, parameter, initial)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CaseResult, difference, bits, loss, norm, expected_loss, expected_norm)

namespace {

CaseResult result_of(const TinyOutcome& got, const TinyOutcome& one_rank, const RunConfig& config)
{
    CaseResult result;
    result.difference = compare(got, one_rank, config);
    const auto step = static_cast<std::size_t>(std::max(1, result.difference.step) - 1);
    result.loss = got.losses[step];
    result.norm = got.norms[step];
    result.expected_loss = one_rank.losses[step];
    result.expected_norm = one_rank.norms[step];
    result.bits.emplace_back("the losses", bits_of(got.losses));
    result.bits.emplace_back("the gradient norms", bits_of(got.norms));
    for (const HeldPart& part : got.parameters) {
        std::string place = part.name;
        for (std::size_t d = 0; d < part.whole.size(); ++d)
            place += str(d == 0 ? " [" : ", ", part.box.offset[d], ":",
                         part.box.offset[d] + part.box.shape[d], d + 1 == part.whole.size() ? "]" : "");
        result.bits.emplace_back(place, bits_of(part.last));
    }
    return result;
}

std::string ratio(double got, double want) { return fmt::format("{:.7g} ({:.4g} times)", got, got / want); }

/// One-rank results by answer_key, computed by this rank.
class Answers {
public:
    explicit Answers(const CheckGround& ground) : ground_(ground), alone_(make_self_comm()) {}

    const TinyOutcome& of(const RunConfig& config)
    {
        const auto [at, added] = known_.try_emplace(answer_key(config));
        if (added) {
            const RunConfig one = on_one_rank(config);
            at->second = train_tiny(*alone_, ground_.facts, one, compile_tiny(one, 0));
        }
        return at->second;
    }
    /// Results of this rank alone, for comparison between ranks.
    std::vector<KernelRecord> records() const
    {
        std::vector<KernelRecord> all;
        for (const auto& [key, outcome] : known_) {
            std::vector<double> numbers = outcome.losses;
            numbers.insert(numbers.end(), outcome.norms.begin(), outcome.norms.end());
            for (const HeldPart& part : outcome.parameters)
                numbers.insert(numbers.end(), part.last.begin(), part.last.end());
            all.push_back({"a training alone: " + key, bits_of(numbers), 0, 0, true});
        }
        return all;
    }

private:
    const CheckGround& ground_;
    std::unique_ptr<Comm> alone_;
    std::map<std::string, TinyOutcome> known_;
};

/// The ranks of the case run it; the others wait. World rank 0 gets the results. Returns false if the case is
/// refused.
bool run_case(const CheckGround& ground, const CheckCase& c, Answers& answers,
              std::vector<CaseResult>& results)
{
    Comm& world = ground.world;
    const bool takes_part = world.rank() >= c.first && world.rank() < c.first + c.ranks();
    std::vector<int> members;
    for (int rank = 0; rank < world.size(); ++rank)
        if ((rank >= c.first && rank < c.first + c.ranks()) == takes_part)
            members.push_back(rank);
    Activity::of_process().enter(str("training '", c.text(), "' of the check"));
    const std::unique_ptr<Comm> group = world.subgroup(members);
    RunConfig config = c.config;
    if (ground.config.hooks.config)
        ground.config.hooks.config(config);
    Compiled compiled;
    bool refused = false;
    if (takes_part)
        try {
            compiled = compile_tiny(config, group->rank());
        } catch (const UserError&) { // some settings are incompatible
            refused = true;
        }
    if (agree(world, refused ? 1 : 0) != 0)
        return false;
    std::vector<CaseResult> own;
    if (takes_part)
        try {
            if (ground.config.hooks.compiled)
                ground.config.hooks.compiled(config, compiled);
            const TinyOutcome& one_rank = answers.of(c.config);
            own.push_back(
                result_of(train_tiny(*group, ground.facts, config, std::move(compiled)), one_rank, c.config));
        } catch (const InternalError& error) {
            throw InternalError(__FILE__, __LINE__, str("in the training '", c.text(), "': ", error.what()));
        }
    results.clear();
    for (const std::vector<CaseResult>& theirs : gather_records_to_first(world, own))
        results.insert(results.end(), theirs.begin(), theirs.end());
    return true;
}

} // namespace

void CompositionJudge::note(Fault& fault, const CheckCase& c, const std::vector<int>& ranks,
                            const std::string& expected, const std::string& seen)
{
    if (fault.cases++ == 0) {
        fault.first_case = c.text();
        fault.expected = expected;
        fault.seen = seen;
    }
    std::set<int> all(fault.ranks.begin(), fault.ranks.end());
    for (const int rank : ranks)
        all.insert(c.first + rank);
    fault.ranks.assign(all.begin(), all.end());
    fault.traits.push_back(traits_of(c.config));
}

bool CompositionJudge::add_replicas(const CheckCase& c, const std::vector<CaseResult>& results)
{
    std::map<std::pair<std::string, std::string>, std::vector<std::string>>
        holders; // bits of a shard on similar processors, by rank; "" if not held
    for (std::size_t rank = 0; rank < results.size(); ++rank)
        for (const auto& [part, bits] : results[rank].bits) {
            std::vector<std::string>& all =
                holders[{part, facts_[static_cast<std::size_t>(c.first) + rank].processor}];
            all.resize(results.size());
            all[rank] = bits;
        }
    std::set<int> unlike;
    std::string seen;
    for (const auto& [part, bits] : holders) {
        auto groups = group_ranks(bits);
        std::erase_if(groups, [](const auto& group) { return group.first.empty(); });
        for (std::size_t i = 1; i < groups.size(); ++i) {
            unlike.insert(groups[i].second.begin(), groups[i].second.end());
            seen = seen.empty()
                       ? str(part.first, ": different bits from rank ", c.first + groups[0].second.front())
                       : seen;
        }
    }
    if (!unlike.empty())
        note(replicas_, c, {unlike.begin(), unlike.end()}, "the same bits of the same shard on similar ranks",
             seen);
    return !unlike.empty();
}

void CompositionJudge::add(const CheckCase& c, const std::vector<CaseResult>& results)
{
    ++cases_;
    const CheckTolerance tolerance = tolerance_of(c.config);
    const auto ranks_where = [&](const std::function<bool(const CaseResult&)>& holds) {
        std::vector<int> ranks;
        for (std::size_t rank = 0; rank < results.size(); ++rank)
            if (holds(results[rank]))
                ranks.push_back(static_cast<int>(rank));
        return ranks;
    };
    using Pair = std::array<std::string, 2>;
    const auto found = [&](Fault& fault, const std::vector<int>& ranks,
                           const std::function<Pair(const CaseResult&)>& expected_seen) {
        if (ranks.empty())
            return false;
        const auto [expected, seen] = expected_seen(results[static_cast<std::size_t>(ranks.front())]);
        note(fault, c, ranks, expected, seen);
        return true;
    };
    if (found(initial_, ranks_where([](const CaseResult& w) { return !w.difference.initial.empty(); }),
              [&](const CaseResult& w) {
                  return Pair{str("the numbers of seed ", c.config.train.seed),
                              w.difference.initial + " differs"};
              }))
        return; // later differences follow from this
    bool sound = !add_replicas(c, results);
    if (found(answers_, ranks_where([&](const CaseResult& w) {
                  return !(std::max(w.difference.losses, w.difference.norms) <= tolerance.losses);
              }),
              [&](const CaseResult& w) {
                  return Pair{fmt::format("step {}: loss {:.7g}, gradient norm {:.7g}, as on one rank",
                                          w.difference.step, w.expected_loss, w.expected_norm),
                              str("loss ", ratio(w.loss, w.expected_loss), ", gradient norm ",
                                  ratio(w.norm, w.expected_norm))};
              }))
        return;
    if (found(parameters_, ranks_where([&](const CaseResult& w) {
                  return !(w.difference.parameters <= tolerance.parameters);
              }),
              [&](const CaseResult& w) {
                  return Pair{
                      fmt::format(
                          "within {:.0e} of the largest possible change in {} steps, relative to one rank",
                          tolerance.parameters, tiny_steps),
                      fmt::format("{} differs by {:.2g} of it", w.difference.parameter,
                                  w.difference.parameters)};
              }))
        return;
    if (sound)
        sound_.push_back(traits_of(c.config));
}

std::string CompositionJudge::in_common(const Fault& fault) const
{
    std::vector<std::string> best;
    std::size_t least = sound_.size() + 1;
    const auto has = [](const std::vector<std::string>& traits, const std::string& trait) {
        return std::ranges::find(traits, trait) != traits.end();
    };
    for (const std::string& trait : fault.traits.front()) {
        if (!std::ranges::all_of(fault.traits, [&](const auto& traits) { return has(traits, trait); }))
            continue;
        const auto sound = static_cast<std::size_t>(
            std::ranges::count_if(sound_, [&](const auto& traits) { return has(traits, trait); }));
        if (sound < least) {
            least = sound;
            best.clear();
        }
        if (sound == least)
            best.push_back(trait);
    }
    if (best.empty() || least == sound_.size())
        return "the wrong cases share no setting that the correct ones lack";
    return fmt::format("common settings: {}", fmt::join(best, ", ")) +
           (least == 0 ? "; no correct case has them"
                       : str("; ", counted(least, "correct case has", "correct cases have"), " them too"));
}

void CompositionJudge::report(CheckReport& report) const
{
    const auto say = [&](const Fault& fault, const std::string& problem, const std::string& remedy) {
        if (fault.cases > 0)
            report.findings.push_back({CheckPart::composition, Severity::fault, fault.ranks,
                                       str(problem, " in ", fault.cases, " of ", cases_, " trainings (",
                                           in_common(fault), "); the first: ", fault.first_case),
                                       fault.expected, fault.seen, remedy});
    };
    say(initial_, "initial parameters differ from those of one rank",
        "start all ranks with the same program and the same seed");
    const std::string do_not_train =
        "do not train on such a grid with this build and this MPI: run the project's tests (ctest -R "
        "'grid|comm'), try another MPI library or compiler";
    say(answers_, "results differ from those of one rank", do_not_train);
    say(parameters_, "final parameters differ from those of one rank", do_not_train);
    say(replicas_, "bits differ from ranks that hold the same shard",
        "check the memory and the network card of the node, or exclude it");
}

void check_composition(const CheckGround& ground, CheckReport& report)
{
    const Seconds begin = now();
    std::vector<CheckCase> all;
    succeed_together(ground.world, [&] { all = check_cases(ground.world.size(), ground.config.longer); });
    if (ground.config.hooks.chosen)
        std::erase_if(all, [&](const CheckCase& c) { return !ground.config.hooks.chosen(c.config); });
    Answers answers(ground);
    CompositionJudge judge(report.facts);
    std::vector<CaseResult> results;
    std::size_t done = 0, refused = 0;
    for (const CheckCase& c : all) {
        if (ground.first())
            log_progress(str("composition  ", ++done, " of ", all.size(), ": ", c.text()));
        if (!run_case(ground, c, answers, results))
            ++refused;
        else if (ground.first())
            judge.add(c, results);
    }
    compare_arithmetic(ground, answers.records(), report);
    if (!ground.first())
        return;
    judge.report(report);
    report.parts.push_back(fmt::format("composition  {} on up to {} against one, in {}{}",
                                       counted(judge.cases(), "tiny training"),
                                       counted(ground.world.size(), "rank"), format_seconds(now() - begin),
                                       refused > 0 ? str("; ", refused, " more are not supported") : ""));
}

} // namespace trivium
