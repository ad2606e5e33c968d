"""Write docs/algorithms, a page an algorithm, and their pictures: ``python docs/update_algorithm_pages.py``.

The text is that of the docstrings and of the catalogue; measured gaps are those of the table in federated.md, which is
to be updated first.  Names choose some of the algorithms, ``--text`` leaves the pictures.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGES, PICTURES = HERE / "algorithms", HERE / "images" / "federated"
SECTION = re.compile(r"^(Parameters|Notes|Examples)\n-+\n", re.MULTILINE)
TRAFFIC_ROUNDS, DRAWN_ROUNDS = 100, 400
HEADING = """# Federated algorithms

A page each, from the code by `python docs/update_algorithm_pages.py`. What they have in common, and all limits in one
table, is in [federated.md](../federated.md).
"""


def sections(algorithm: type) -> dict[str, str]:
    """Parts of a class docstring by heading; what comes first is the update."""
    parts = SECTION.split(inspect.getdoc(algorithm) or "")
    return {"Update": parts[0].strip(), **{k: v.strip() for k, v in zip(parts[1::2], parts[2::2], strict=True)}}


def markdown(text: str) -> str:
    """A docstring as Markdown: literals, and references by their last name."""
    text = re.sub(r":(?:class|func|mod|meth):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL)


def parameters(text: str) -> Iterator[str]:
    """A list item a parameter."""
    for entry in re.split(r"\n(?=\S)", text):
        name, _, rest = entry.partition(" : ")
        if not rest:  # several with one description and no type
            name, _, rest = entry.partition("\n")
            yield f"- **{name}**: {_joined(rest)}"
            continue
        kind, _, description = rest.partition("\n")
        yield f"- **{name}** ({kind}): {_joined(description)}"


def _joined(text: str) -> str:
    return markdown(" ".join(line.strip() for line in text.splitlines()))


def measured() -> dict[str, str]:
    """Certified gaps by title, from the table in federated.md."""
    table = (HERE / "federated.md").read_text(encoding="utf-8")
    lines = table.partition("<!-- table -->")[2].partition("<!-- end of table -->")[0].strip().splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[0]: cell[4] for cell in cells}


def problem() -> Any:
    """Problem Q of the tests: eight devices, mean squared errors."""
    tests = str(HERE.parent / "tests")
    if tests not in sys.path:
        sys.path.insert(0, tests)
    from federated_problems import problem_q

    return problem_q()


def sends(algorithm: Any) -> str:
    """What a round costs a device of the example, on average over devices and rounds."""
    import numpy as np

    import gtvmin as gtv
    from gtvmin.errors import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = gtv.federate(problem(), algorithm, rounds=TRAFFIC_ROUNDS, check_every=TRAFFIC_ROUNDS)
    spent = run.traffic
    vector = run.problem.dim
    up, down, gradients, proxes = (
        float(np.mean(costs)) / TRAFFIC_ROUNDS
        for costs in (spent.sent / vector, spent.received / vector, spent.gradients, spent.proxes)
    )
    work = [f"{what} {n:.3g}" for n, what in ((gradients, "gradients"), (proxes, "proximal maps")) if n]
    return f"vectors sent {up:.3g}, received {down:.3g}; {', '.join(work)}."


def page(name: str) -> str:
    """The Markdown of an algorithm's page."""
    from gtvmin.federated.catalogue import entries, name_of, rows

    algorithm: Any = entries()[name].algorithm
    found, gaps = sections(algorithm), measured()
    mine = [row for row in rows() if name_of(row.algorithm) == name]
    module = sys.modules[algorithm.__module__].__doc__ or ""
    notes, _, use = found["Notes"].rpartition("\n\nUse it ")
    table = "\n".join(
        f"| {row.title} | {row.limit} | {row.declared} | {gaps.get(row.title, 'not measured')} |" for row in mine
    )
    return f"""# {algorithm.__name__}

`gtv.federate(problem, "{name}", ...)`; the class is `{algorithm.__module__}.{algorithm.__name__}`.

{markdown(module.strip())}

## Which problem it solves

| variant | limit | program | certified relative gap |
|---|---|---|---|
{table}

## Update

{markdown(found["Update"])}

## Assumptions and limit

{markdown(notes)}

## Parameters

{chr(10).join(parameters(found["Parameters"])) if "Parameters" in found else "None."}

## What a round costs

{mine[0].title}, on the example of eight devices, on average over devices and {TRAFFIC_ROUNDS} rounds:
{sends(mine[0].algorithm)}

## When to use it

Use it {markdown(use)}

## Convergence

![Certified gap against rounds](../images/federated/{name}.png)

Eight devices with mean squared errors. Dashed: the program is not, or not exactly, the one that the limit solves, and
the gap ends on the bias or noise.

## Example

```python
{found["Examples"]}
```
"""


def draw(name: str) -> Path | None:
    """Certified gaps of the variants of an algorithm."""
    from matplotlib.figure import Figure

    import gtvmin as gtv
    from benchmarks.pictures import save_small
    from gtvmin.errors import ConvergenceWarning
    from gtvmin.federated.catalogue import name_of, rows
    from gtvmin.federated.plots import plot_federated

    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = {
            row.title: gtv.federate(problem(), row.algorithm, rounds=DRAWN_ROUNDS, check_every=2)
            for row in rows()
            if name_of(row.algorithm) == name
        }
    axes = plot_federated(runs, ax=figure.add_subplot())
    axes.legend(fontsize=8, loc="lower left", edgecolor="none", framealpha=0.85)
    return save_small(figure, PICTURES / f"{name}.png", dpi=90)


def main() -> None:
    """Write all pages."""
    from gtvmin.federated.catalogue import entries

    sys.path.insert(0, str(HERE.parent))
    PAGES.mkdir(exist_ok=True)
    text = "--text" in sys.argv[1:]
    names = [name for name in sys.argv[1:] if name != "--text"] or sorted(entries())
    for name in names:
        (PAGES / f"{name}.md").write_text(page(name), encoding="utf-8")
        if not text:
            draw(name)
    contents = "\n".join(f"- [{e.algorithm.__name__}]({n}.md)" for n, e in sorted(entries().items()))
    (PAGES / "README.md").write_text(f"{HEADING}\n{contents}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
