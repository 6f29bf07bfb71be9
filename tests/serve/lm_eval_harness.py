"""lm-evaluation-harness through `trivium serve` against transformers on the exported model.

    lm_eval_harness.py TRIVIUM [LAUNCH]

Trains a tiny model on sums, exports it, and evaluates three kinds of tasks (multiple choice, perplexity, text until a
stop string) with both, in f32. The scores and the samples' answers must be the same. LAUNCH ("mpiexec -n 2"): serves on
several ranks, too. Exit status 77, with the reason, where packages are missing: ctest then reports it as skipped.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
try:
    import datasets
    import lm_eval
    import torch
    import transformers
    from lm_eval.tasks import TaskManager
except Exception as reason:  # not only ImportError: a broken package may raise anything
    print(f"skipped: {sys.executable} has not lm_eval, torch and transformers: {reason}")
    sys.exit(77)

datasets.disable_progress_bars()
torch.set_num_threads(1)
trivium = sys.argv[1]
context = 96

RUN = f"""
model = {{ family = "llama", layers = 2, dim = 64, heads = 4, kv_heads = 2, ffn_dim = 128, seq = {context} }}
data = {{ train = "train.h5", tokenizer = "tok.model" }}
train = {{ steps = 120, global_batch = 16, micro_batch = 16, lr = 1e-2, min_lr = 1e-3, warmup = 10 }}
parallel = {{ threads = 1 }}
checkpoint = {{ every = 120 }}
"""
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()


def sum_line(a, b):
    return f"{NUMBERS[a]} plus {NUMBERS[b]} is {NUMBERS[a + b]}."


def run(*arguments, folder):
    done = subprocess.run([trivium, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def train(folder):
    draw = random.Random(1)
    lines = [sum_line(draw.randrange(9), draw.randrange(8)) for _ in range(4000)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "run.toml").write_text(RUN)
    run("data", "tokenizer", "text.txt", "--vocab", "340", "-o", "tok.model", folder=folder)
    run("data", "tokenize", "text.txt", "--tokenizer", "tok.model", "-o", "train.h5", folder=folder)
    run("train", "run.toml", folder=folder)
    run("checkpoint", "export", "checkpoints", "exported", folder=folder)


def write_tasks(folder):
    draw = random.Random(2)
    choices, texts, questions = [], [], []
    for _ in range(40):
        a, b = draw.randrange(9), draw.randrange(8)
        wrong = draw.sample([n for n in range(17) if n != a + b], 3)
        options = [NUMBERS[n] for n in [a + b, *wrong]]
        draw.shuffle(options)
        question = f"{NUMBERS[a]} plus {NUMBERS[b]} is"
        choices.append({"question": question, "options": options, "gold": options.index(NUMBERS[a + b])})
        questions.append({"question": question, "answer": f"{NUMBERS[a + b]}."})
    for lines in (1, 2, 5, 60):  # the last one is longer than the context
        texts.append({"text": "\n".join(sum_line(draw.randrange(9), draw.randrange(8)) for _ in range(lines))})
    texts.append({"text": "Other text: \u00e4\u20ac, none of which it has seen."})
    common = {"dataset_path": "json", "test_split": "test"}
    tasks = {
        "sums_choice": (choices, {
            "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{options}}",
            "doc_to_target": "{{gold}}", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}),
        "sums_perplexity": (texts, {
            "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
            "metric_list": [{"metric": m} for m in ("word_perplexity", "byte_perplexity", "bits_per_byte")]}),
        "sums_text": (questions, {
            "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": " {{answer}}",
            "generation_kwargs": {"until": ["\n", ".\n"], "max_gen_toks": 24, "temperature": 0, "do_sample": False},
            "metric_list": [{"metric": "exact_match"}]}),
    }
    for name, (records, task) in tasks.items():
        write_lines(folder / f"{name}.jsonl", records)
        task |= common | {"task": name, "dataset_kwargs": {"data_files": {"test": str(folder / f"{name}.jsonl")}}}
        (folder / f"{name}.yaml").write_text(json.dumps(task))  # JSON is YAML
    return list(tasks)


def evaluate(folder, tasks, model, arguments, batch):
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    return lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=tasks, task_manager=manager, batch_size=batch,
                                   bootstrap_iters=0, log_samples=True, verbosity="ERROR", device="cpu")


def scores_of(results):
    return {f"{task} {metric.removesuffix(',none')}": f"{value:.4f}"  # as the harness prints them
            for task, metrics in sorted(results["results"].items())
            for metric, value in metrics.items() if isinstance(value, float) and "stderr" not in metric}


def answers_of(results):
    """What the harness got of each sample: texts, whether each choice is greedy, and logprobs."""
    return {task: [sample["filtered_resps"] for sample in sorted(samples, key=lambda s: s["doc_id"])]
            for task, samples in results["samples"].items()}


def largest_difference(ours, theirs):
    """Between the numbers of two answers; all else must be equal."""
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), (ours, theirs)
        return max((largest_difference(a, b) for a, b in zip(ours, theirs)), default=0)
    if isinstance(ours, float):
        return abs(ours - theirs)
    assert ours == theirs, (ours, theirs)
    return 0


class Server:
    """On ranks of `launch`, as a context with its address."""

    def __init__(self, folder, launch):
        self.process = subprocess.Popen([*launch, trivium, "serve", "run.toml", "--port", "0"], cwd=folder,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self.process.stdout.readline().split()[-1]

    def __exit__(self, *error):
        self.process.send_signal(signal.SIGUSR1)
        status = self.process.wait(60)
        assert status == 0 or error[0], f"the server ended with {status}"


def compare(folder, tasks, theirs, name, arguments, batch):
    ours = evaluate(folder, tasks, "local-completions", arguments, batch)
    assert scores_of(ours) == scores_of(theirs), f"{name}:\n{scores_of(ours)}\n{scores_of(theirs)}"
    differences = {task: largest_difference(answers_of(ours)[task], answers_of(theirs)[task]) for task in tasks}
    assert max(differences.values()) < 2e-3, (name, differences)
    print(f"{name}: the scores are equal; largest difference of a log-likelihood:",
          ", ".join(f"{task} {value:.1e}" for task, value in differences.items() if value))


def main(folder, launch):
    train(folder)
    tasks = write_tasks(folder)
    theirs = evaluate(folder, tasks, "hf", f"pretrained={folder}/exported,dtype=float32,max_length={context - 2}", 4)
    # The harness keeps two tokens of max_length for itself: the first of a window, and one that it never uses.
    common = f"model=trivium,max_length={context},base_url="
    tokenizer = f"/v1/completions,tokenizer={folder}/exported"
    with Server(folder, []) as address:
        ways = {
            "token ids, batches": (tokenizer, 4),
            "token ids, concurrently": (f"{tokenizer},num_concurrent=8", 1),
            "the server's tokenizer": ("/v1/completions,tokenizer_backend=remote", 3),
            "texts": (f"{tokenizer},tokenized_requests=False", 1),
        }
        for name, (arguments, batch) in ways.items():
            compare(folder, tasks, theirs, name, f"{common}{address}{arguments}", batch)
    if launch:
        with Server(folder, launch) as address:
            compare(folder, tasks, theirs, " ".join(launch), f"{common}{address}{tokenizer},num_concurrent=8", 1)
    print(f"lm_eval {lm_eval.__version__}, transformers {transformers.__version__}, torch {torch.__version__}")
    for name, value in scores_of(theirs).items():
        print(f"  {name:32} {value}")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary), sys.argv[2].split() if len(sys.argv) > 2 else [])
