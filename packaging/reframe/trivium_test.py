"""ReFrame tests of an installed Trivium: does it train right on this system, and how fast?

    module load trivium   # or valid_modules=trivium, or PATH
    reframe -C SITE.py -c packaging/reframe/trivium_test.py -r
    reframe -C SITE.py -c packaging/reframe/trivium_test.py -r -n trivium_speed -S trivium_speed.tokens_per_second=150e3

Both need a launcher for MPI ranks in the system's configuration. `-S ranks=N` is the number of ranks, `-S modules=trivium`
the module to load.
"""

import json
import os

import reframe as rfm
import reframe.utility.sanity as sn

RUN = """
model = {{ preset = "{preset}" }}
data = {{ train = "train.h5", tokenizer = "bytes" }}
train = {{ steps = {steps}, global_batch = {batch}, warmup = 2 }}
"""


class TriviumRun(rfm.RunOnlyRegressionTest):
    """Trains on its own licence; what the run measures is in logs/metrics.jsonl."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    ranks = variable(int, value=2)
    preset = variable(str, value="toy")
    steps = variable(int, value=6)
    batch = variable(int, value=4)
    threads = variable(int, value=1)
    executable = "trivium"
    keep_files = ["logs/metrics.jsonl"]

    @run_before("run")
    def prepare(self):
        self.num_tasks = self.ranks
        self.num_cpus_per_task = self.threads
        with open(os.path.join(self.stagedir, "run.toml"), "w", encoding="utf-8") as config:
            config.write(RUN.format(preset=self.preset, steps=self.steps, batch=self.batch))
        text = '"${TRIVIUM_TEXT:-$(dirname "$(command -v trivium)")/../share/doc/Trivium/LICENSE}"'
        self.prerun_cmds = [f"trivium data tokenize {text} --tokenizer bytes -o train.h5"]
        self.executable_opts = ["train", "run.toml", f"parallel.threads={self.threads}"]

    def metrics(self):
        with open(os.path.join(self.stagedir, "logs", "metrics.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


@rfm.simple_test
class trivium_smoke(TriviumRun):
    """Several ranks have the losses of one rank, and the checkpoint that they leave is good."""

    tags = {"smoke", "production"}
    form = parameter(["data", "tensor", "pipeline"])

    @run_before("run")
    def set_grid(self):
        self.executable_opts += [f"parallel.{self.form}={self.ranks}"]
        one = "trivium train run.toml parallel.threads=1 checkpoint.dir=one log.dir=one-logs"
        self.postrun_cmds = [one, "trivium checkpoint verify checkpoints"]

    @sanity_function
    def check(self):
        losses = [line["loss"] for line in self.metrics()]
        with open(os.path.join(self.stagedir, "one-logs", "metrics.jsonl"), encoding="utf-8") as lines:
            expected = [json.loads(line)["loss"] for line in lines]
        return sn.all([
            sn.assert_eq(len(losses), self.steps, "steps are missing: {0} of {1}"),
            sn.assert_lt(losses[-1], losses[0], "the loss does not fall: {0} after {1}"),
            sn.assert_lt(max(abs(a - b) / b for a, b in zip(losses, expected)), 1e-3, "losses differ by {0}"),
            sn.assert_found("good", self.stdout),
        ])


@rfm.simple_test
class trivium_speed(TriviumRun):
    """Tokens per second of the last half of the steps. `tokens_per_second` is what they must reach, within a tenth."""

    tags = {"performance"}
    preset = "gpt2-124m"
    steps = 8
    batch = 8
    tokens_per_second = variable(float, value=0.0)

    @run_before("run")
    def set_grid(self):
        self.executable_opts += [f"parallel.data={self.ranks}"]

    @run_before("performance")
    def set_reference(self):
        if self.tokens_per_second:
            self.reference = {"*": {"speed": (self.tokens_per_second, -0.1, None, "tokens/s")}}

    @sanity_function
    def check(self):
        return sn.assert_eq(len(self.metrics()), self.steps)

    @performance_function("tokens/s")
    def speed(self):
        last = self.metrics()[self.steps // 2:]
        return sum(line["tokens_per_second"] for line in last) / len(last)

    @performance_function("%")
    def flops_utilisation(self):
        last = self.metrics()[self.steps // 2:]
        return 100 * sum(line["mfu"] or 0 for line in last) / len(last)
