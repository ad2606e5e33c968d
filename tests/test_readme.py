"""The README's examples run as they are printed there, and do what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for code in blocks:
        exec(compile(code, str(README), "exec"), names)  # the project's own text
    solution, reference, certificate = names["solution"], names["reference"], names["certificate"]
    assert solution.is_certified
    assert len(set(solution.clusters().values())) == 2
    assert abs(solution.objective - reference.objective) < 1e-6 * reference.objective
    # the planted parameters are not the optimal ones: their gap is their true suboptimality
    true = names["problem"].objective(names["truth"]) - reference.objective
    assert np.isclose(certificate.gap, true, rtol=0.05)
    assert "lower bound" in capsys.readouterr().out
    assert names["run"].certificate.relative_gap < 1e-12
