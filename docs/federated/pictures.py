"""Draw the convergence of every algorithm in the catalogue: ``python docs/federated/pictures.py [name ...]``.

One picture an algorithm, with the certified gap of each of its rows in the table on the program that it declares,
against rounds, on problem Q of the tests.  Needs matplotlib.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 400


def main(names: list[str]) -> None:
    """Draw those that are named, or all."""
    sys.path.insert(0, str(HERE.parents[1] / "tests"))
    from matplotlib.figure import Figure

    import gtvmin as gtv
    from federated_problems import problem_q
    from gtvmin.errors import ConvergenceWarning
    from gtvmin.federated.catalogue import algorithm_names, name_of, program_of, rows
    from gtvmin.federated.plots import plot_federated

    (HERE.parent / "images").mkdir(exist_ok=True)
    for name in names or algorithm_names():
        runs = {}
        for row in rows():
            if name_of(row.algorithm) == name and program_of(row.algorithm, problem_q()).problem is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    runs[row.title] = gtv.federate(problem_q(), row.algorithm, rounds=ROUNDS, check_every=1)
        if runs:
            figure = Figure(figsize=(7.0, 4.2), layout="constrained")
            plot_federated(runs, ax=figure.add_subplot(), title="Eight devices, mean squared errors (problem Q)")
            figure.savefig(HERE.parent / "images" / f"federated_{name}.png", dpi=90)


if __name__ == "__main__":
    main(sys.argv[1:])
