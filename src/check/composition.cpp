#include "check/composition.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "check/arithmetic.hpp"
#include "check/parts.hpp"
#include "mpi/records.hpp"

#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace trivium {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TinyDifference, losses, norms, step, parameters, parameter, initial)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CaseWord, difference, bits, loss, norm, expected_loss, expected_norm)

namespace {

CaseWord word_of(const TinyOutcome& got, const TinyOutcome& one_rank, const RunConfig& config)
{
    CaseWord word;
    word.difference = compare(got, one_rank, config);
    const auto step = static_cast<std::size_t>(std::max(1, word.difference.step) - 1);
    word.loss = got.losses[step];
    word.norm = got.norms[step];
    word.expected_loss = one_rank.losses[step];
    word.expected_norm = one_rank.norms[step];
    word.bits.emplace_back("the losses", bits_of(got.losses));
    word.bits.emplace_back("the gradient norms", bits_of(got.norms));
    for (const HeldPart& part : got.parameters) {
        std::string place = part.name;
        for (std::size_t d = 0; d < part.whole.size(); ++d)
            place += str(d == 0 ? " [" : ", ", part.box.offset[d], ":",
                         part.box.offset[d] + part.box.shape[d], d + 1 == part.whole.size() ? "]" : "");
        word.bits.emplace_back(place, bits_of(part.last));
    }
    return word;
}

std::string ratio(double got, double want) { return fmt::format("{:.7g} ({:.4g} times)", got, got / want); }

/// One-rank outcomes by answer_key, as this rank computes them.
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
    /// What this rank has computed alone, to be compared with what others have.
    std::vector<KernelWord> words() const
    {
        std::vector<KernelWord> all;
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

/// The ranks of the case run it; the others wait. Rank 0 of the world gets their words. False where the case
/// is refused.
bool run_case(const CheckGround& ground, const CheckCase& c, Answers& answers, std::vector<CaseWord>& words)
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
        } catch (const UserError&) { // some levels do not go together
            refused = true;
        }
    if (agree(world, refused ? 1 : 0) != 0)
        return false;
    std::vector<CaseWord> own;
    if (takes_part)
        try {
            if (ground.config.hooks.compiled)
                ground.config.hooks.compiled(config, compiled);
            const TinyOutcome& one_rank = answers.of(c.config);
            own.push_back(
                word_of(train_tiny(*group, ground.facts, config, std::move(compiled)), one_rank, c.config));
        } catch (const InternalError& error) {
            throw InternalError(__FILE__, __LINE__, str("in the training '", c.text(), "': ", error.what()));
        }
    words.clear();
    for (const std::vector<CaseWord>& theirs : gather_records_to_first(world, own))
        words.insert(words.end(), theirs.begin(), theirs.end());
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

bool CompositionJudge::add_replicas(const CheckCase& c, const std::vector<CaseWord>& words)
{
    std::map<std::pair<std::string, std::string>, std::vector<std::string>>
        holders; // bits of a part on like processors, by rank; "" where it is not
    for (std::size_t rank = 0; rank < words.size(); ++rank)
        for (const auto& [part, bits] : words[rank].bits) {
            std::vector<std::string>& all =
                holders[{part, facts_[static_cast<std::size_t>(c.first) + rank].processor}];
            all.resize(words.size());
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
                       ? str(part.first, ": other bits than on rank ", c.first + groups[0].second.front())
                       : seen;
        }
    }
    if (!unlike.empty())
        note(replicas_, c, {unlike.begin(), unlike.end()},
             "the same bits of the same part on ranks of one kind", seen);
    return !unlike.empty();
}

void CompositionJudge::add(const CheckCase& c, const std::vector<CaseWord>& words)
{
    ++cases_;
    const CheckTolerance tolerance = tolerance_of(c.config);
    const auto ranks_where = [&](const std::function<bool(const CaseWord&)>& holds) {
        std::vector<int> ranks;
        for (std::size_t rank = 0; rank < words.size(); ++rank)
            if (holds(words[rank]))
                ranks.push_back(static_cast<int>(rank));
        return ranks;
    };
    using Pair = std::array<std::string, 2>;
    const auto found = [&](Fault& fault, const std::vector<int>& ranks,
                           const std::function<Pair(const CaseWord&)>& expected_seen) {
        if (ranks.empty())
            return false;
        const auto [expected, seen] = expected_seen(words[static_cast<std::size_t>(ranks.front())]);
        note(fault, c, ranks, expected, seen);
        return true;
    };
    if (found(initial_, ranks_where([](const CaseWord& w) { return !w.difference.initial.empty(); }),
              [&](const CaseWord& w) {
                  return Pair{str("the numbers of seed ", c.config.train.seed),
                              w.difference.initial + " has others"};
              }))
        return; // what begins wrong goes on wrong
    bool sound = !add_replicas(c, words);
    if (found(answers_, ranks_where([&](const CaseWord& w) {
                  return !(std::max(w.difference.losses, w.difference.norms) <= tolerance.losses);
              }),
              [&](const CaseWord& w) {
                  return Pair{fmt::format("step {}: loss {:.7g}, gradient norm {:.7g}, as on one rank",
                                          w.difference.step, w.expected_loss, w.expected_norm),
                              str("loss ", ratio(w.loss, w.expected_loss), ", gradient norm ",
                                  ratio(w.norm, w.expected_norm))};
              }))
        return;
    if (found(parameters_, ranks_where([&](const CaseWord& w) {
                  return !(w.difference.parameters <= tolerance.parameters);
              }),
              [&](const CaseWord& w) {
                  return Pair{fmt::format("within {:.0e} of the way that {} steps may go, of one rank's",
                                          tolerance.parameters, tiny_steps),
                              fmt::format("{} is off by {:.2g} of it", w.difference.parameter,
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
        return std::find(traits.begin(), traits.end(), trait) != traits.end();
    };
    for (const std::string& trait : fault.traits.front()) {
        if (!std::all_of(fault.traits.begin(), fault.traits.end(),
                         [&](const auto& traits) { return has(traits, trait); }))
            continue;
        const auto sound = static_cast<std::size_t>(std::count_if(
            sound_.begin(), sound_.end(), [&](const auto& traits) { return has(traits, trait); }));
        if (sound < least) {
            least = sound;
            best.clear();
        }
        if (sound == least)
            best.push_back(trait);
    }
    if (best.empty() || least == sound_.size())
        return "the cases that are have nothing in common that the others have not";
    std::string text = "what they have in common: ";
    for (const std::string& trait : best)
        text += (trait == best.front() ? "" : ", ") + trait;
    return text + (least == 0
                       ? ", and no sound case has that"
                       : str(", which ", counted(least, "sound case has", "sound cases have"), " too"));
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
    say(initial_, "other parameters than one rank begins with",
        "start all ranks with the same program and the same seed");
    say(answers_, "another answer than one rank's",
        "do not train on such a grid with this build and this MPI: run the project's tests (ctest -R "
        "'grid|comm'), try another MPI library or compiler");
    say(parameters_, "other parameters than one rank ends with",
        "do not train on such a grid with this build and this MPI: run the project's tests (ctest -R "
        "'grid|comm'), try another MPI library or compiler");
    say(replicas_, "other bits than the ranks that hold the same have,",
        "look at the memory and the network card of the node, or leave it out");
}

void check_composition(const CheckGround& ground, CheckReport& report)
{
    const Seconds begin = now();
    CheckCases all;
    succeed_together(ground.world, [&] { all = check_cases(ground.world.size(), ground.config.longer); });
    if (ground.config.hooks.chosen)
        std::erase_if(all.cases, [&](const CheckCase& c) { return !ground.config.hooks.chosen(c.config); });
    Answers answers(ground);
    CompositionJudge judge(report.facts);
    std::vector<CaseWord> words;
    std::size_t done = 0, refused = 0;
    for (const CheckCase& c : all.cases) {
        if (ground.first())
            log_progress(str("composition  ", ++done, " of ", all.cases.size(), ": ", c.text()));
        if (!run_case(ground, c, answers, words))
            ++refused;
        else if (ground.first())
            judge.add(c, words);
    }
    compare_arithmetic(ground, answers.words(), report);
    if (!ground.first())
        return;
    judge.report(report);
    std::string missing;
    for (const std::string& level : all.not_built)
        missing += (missing.empty() ? "" : ", ") + level;
    report.parts.push_back(fmt::format("composition  {} on up to {} against one, in {}{}{}",
                                       counted(judge.cases(), "tiny training"),
                                       counted(ground.world.size(), "rank"), format_seconds(now() - begin),
                                       refused > 0 ? str("; ", refused, " more are refused") : "",
                                       missing.empty() ? "" : str("; not built: ", missing)));
}

} // namespace trivium
