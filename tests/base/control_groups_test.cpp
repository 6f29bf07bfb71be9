#include "base/control_groups.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"

using namespace trivium;

namespace {

constexpr Bytes mib = Bytes{1} << 20;

/// A process in these groups, of a tree of control groups in a folder.
struct Tree {
    TemporaryFolder folder;

    ControlGroups process(const std::string& mounts, const std::string& groups) const
    {
        std::string placed = mounts;
        for (std::size_t at = 0; (at = placed.find("TREE", at)) != std::string::npos;)
            placed.replace(at, 4, folder.path());
        put(folder / "proc/mountinfo", placed);
        put(folder / "proc/cgroup", groups);
        return {folder / "proc"};
    }
    void limit(const std::string& group, const std::string& limit, Bytes used, Bytes cache = 0) const
    {
        put(folder / group + "/memory.max", limit + "\n");
        put(folder / group + "/memory.current", std::to_string(used) + "\n");
        put(folder / group + "/memory.stat", "anon 5\ninactive_file " + std::to_string(cache) + "\nslab 3\n");
    }
};

const std::string second =
    "25 1 0:5 / /proc rw - proc proc rw\n30 25 0:26 / TREE rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

} // namespace

TEST_CASE("the limits of all groups around a process hold (cgroups v2, as Slurm nests them)")
{
    const Tree tree;
    const ControlGroups process =
        tree.process(second, "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
    CHECK(process.available_memory() == -1);
    CHECK(process.cpu_quota() == 0);
    tree.limit("system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "max", 10 * mib);
    CHECK(process.available_memory() == -1);
    tree.limit("system.slice/slurmstepd.scope/job_7", std::to_string(500 * mib), 100 * mib);
    CHECK(process.available_memory() == 400 * mib);
    tree.limit("system.slice/slurmstepd.scope/job_7/step_0", std::to_string(300 * mib), 80 * mib, 30 * mib);
    CHECK(process.available_memory() == 250 * mib); // file caches give way
    tree.limit("system.slice/slurmstepd.scope/job_7/step_0", std::to_string(300 * mib), 400 * mib);
    CHECK(process.available_memory() == 0);
    put(tree.folder / "system.slice/slurmstepd.scope/job_7/cpu.max", "250000 100000\n");
    put(tree.folder / "system.slice/cpu.max", "max 100000\n");
    CHECK(process.cpu_quota() == 2.5);
    put(tree.folder / "system.slice/slurmstepd.scope/job_7/step_0/cpu.max", "50000 100000\n");
    CHECK(process.cpu_quota() == 0.5);
    CHECK(tree.process(second, "0::/elsewhere\n").available_memory() == -1);
}

TEST_CASE("cgroups v1: each controller has a tree of its own; a container sees a part of it")
{
    const Tree tree;
    const std::string groups =
        "4:cpu,cpuacct:/slurm/uid_0/job_3\n3:memory:/slurm/uid_0/job_3\n1:name=systemd:/user\n";
    const std::string mounts = "31 25 0:27 / TREE/memory rw - cgroup cgroup rw,memory\n"
                               "32 25 0:28 / TREE/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
    const ControlGroups process = tree.process(mounts, groups);
    put(tree.folder / "memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
    put(tree.folder / "memory/memory.usage_in_bytes", "1000000\n");
    CHECK(process.available_memory() == -1);
    put(tree.folder / "memory/slurm/uid_0/job_3/memory.limit_in_bytes", std::to_string(64 * mib));
    put(tree.folder / "memory/slurm/uid_0/job_3/memory.usage_in_bytes", std::to_string(24 * mib));
    put(tree.folder / "memory/slurm/uid_0/job_3/memory.stat",
        "inactive_file 1\ntotal_inactive_file " + std::to_string(8 * mib) + "\n");
    CHECK(process.available_memory() == 48 * mib);
    put(tree.folder / "cpu/slurm/uid_0/cpu.cfs_quota_us", "-1\n");
    put(tree.folder / "cpu/slurm/uid_0/cpu.cfs_period_us", "100000\n");
    CHECK(process.cpu_quota() == 0);
    put(tree.folder / "cpu/slurm/uid_0/job_3/cpu.cfs_quota_us", "150000\n");
    put(tree.folder / "cpu/slurm/uid_0/job_3/cpu.cfs_period_us", "100000\n");
    CHECK(process.cpu_quota() == 1.5);
    // The mount's root is the container's group.
    const ControlGroups inside =
        tree.process("31 25 0:27 /docker/a TREE/memory/slurm/uid_0/job_3 rw - cgroup cgroup rw,memory\n",
                     "3:memory:/docker/a\n");
    CHECK(inside.available_memory() == 48 * mib);
}
