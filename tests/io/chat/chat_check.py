#!/usr/bin/env python3
"""Golden texts of chat templates, as transformers renders them.

  chat_check.py make         writes golden.json from templates/*.jinja and chats.json (needs transformers and jinja2)
  chat_check.py check PROGRAM
                             renders the same with PROGRAM (render_lines); status 77 without transformers

The templates are written for these tests, after the constructs of published ones. Each encloses what the assistant says
in {% generation %}; the C++ test also renders them without, and must find the same spans.
"""
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
tokens = {"bos_token": "<s>", "eos_token": "</s>"}


def compile_template(text):
    from transformers.utils.chat_template_utils import _compile_jinja_template

    return _compile_jinja_template(text)


def load(name):
    with open(os.path.join(here, name), encoding="utf-8") as file:
        return file.read()


def templates():
    folder = os.path.join(here, "templates")
    return {name[: -len(".jinja")]: load(os.path.join("templates", name)) for name in sorted(os.listdir(folder))}


def requests():
    """Of each template and chat, with and without the prompt of an answer."""
    chats = json.loads(load("chats.json"))
    for template, source in templates().items():
        for chat in chats:
            for prompt in (False, True):
                yield template, source, chat, prompt


def render(source, chat, prompt):
    """The text and the spans in bytes, or None if the template refuses the chat."""
    from transformers.utils.chat_template_utils import render_jinja_template
    from transformers.tokenization_utils_base import _normalize_chat_messages

    try:
        texts, spans = render_jinja_template(
            conversations=[_normalize_chat_messages(chat["messages"])], tools=chat.get("tools"), chat_template=source,
            documents=chat.get("documents"), return_assistant_tokens_mask=True, add_generation_prompt=prompt,
            **tokens, **chat.get("variables", {}))
    except Exception:  # noqa: BLE001 whatever a template raises
        return None
    text = texts[0]
    return {"text": text, "spans": [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans[0]]}


def make():
    import jinja2
    import transformers

    results = []
    for template, source, chat, prompt in requests():
        result = {"template": template, "chat": chat["name"], "prompt": prompt}
        result.update(render(source, chat, prompt) or {"refused": True})
        results.append(result)
    golden = {"made_with": {"jinja2": jinja2.__version__, "transformers": transformers.__version__}, "results": results}
    with open(os.path.join(here, "golden.json"), "w", encoding="utf-8") as file:
        file.write('{"made_with": %s, "results": [\n' % json.dumps(golden["made_with"]))
        file.write(",\n".join(json.dumps(result, ensure_ascii=False) for result in results))
        file.write("\n]}\n")
    refused = sum("refused" in result for result in results)
    print(f"{len(results)} renderings, of which {refused} are refused")


def check(program):
    sent, expected = [], []
    for template, source, chat, prompt in requests():
        from transformers.tokenization_utils_base import _normalize_chat_messages
        from transformers.utils.chat_template_utils import _alias_reasoning_fields

        messages = _alias_reasoning_fields(_normalize_chat_messages(chat["messages"]))
        variables = {"messages": messages, "tools": chat.get("tools"), "documents": chat.get("documents"),
                     "add_generation_prompt": prompt, **tokens, **chat.get("variables", {})}
        sent.append(json.dumps({"template": source, "variables": variables}))
        expected.append((template, chat["name"], render(source, chat, prompt)))
    run = subprocess.run([program], input="\n".join(sent) + "\n", capture_output=True, text=True, check=True)
    wrong = 0
    for (template, chat, result), line in zip(expected, run.stdout.splitlines()):
        answer = json.loads(line)
        if (result is None) != ("error" in answer) or (result and (result["text"] != answer["text"] or
                                                                   result["spans"] != answer["spans"])):
            wrong += 1
            print(f"{template} of {chat}:\n  expected {result}\n  rendered {answer}")
    print(f"{len(expected)} renderings, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        compile_template("")
    except ImportError:
        print("skipped: needs the Python packages transformers and jinja2")
        sys.exit(77)
    if sys.argv[1:2] == ["make"]:
        make()
    elif sys.argv[1:2] == ["check"]:
        sys.exit(check(sys.argv[2]))
    else:
        sys.exit(__doc__)
