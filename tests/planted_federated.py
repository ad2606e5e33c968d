"""Small federated algorithms with their rounds, each right or with one fault, for the checks of the suite `federated`.

They are written from the papers, apart from the package's own, which they name as what their rounds should equal.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar

import numpy as np

from gtvmin.solvers.federated.apfl import APFL
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_dc import FedDC
from gtvmin.solvers.federated.fed_dyn import FedDyn
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.ledger import Traffic, server_traffic
from gtvmin.solvers.federated.p_fed_me import PFedMe
from gtvmin.solvers.federated.scaffold import Scaffold
from gtvmin.solvers.standard_form import Point

Array = np.ndarray
ETA, STEPS, MU = 0.05, 5, 1.0


@dataclass(frozen=True)
class Rounds:
    """What the algorithms share: weights, a fault by name, states that are dataclasses of arrays."""

    weights: Any = "samples"
    wrong: str = ""
    seed: int = 0
    solves: ClassVar[str] = "consensus"
    variables: ClassVar[tuple[str, ...]] = ()
    State: ClassVar[Any] = None

    def __init_subclass__(cls, states: tuple[str, ...]) -> None:
        cls.variables = states
        cls.State = make_dataclass(f"{cls.__name__}State", [*states, "round"], frozen=True)

    def p(self, form: Any) -> Array:
        return aggregation_weights(form, self.weights)

    def starting(self, form: Any, start: Any) -> tuple[Array, Array, Array]:
        """The devices' models, the server's, and zeros for each device."""
        zeros = np.zeros((form.n_nodes, form.dim))
        W = zeros if start is None else np.array(start.W)
        return W, self.p(form) @ W, zeros

    def point(self, form: Any, state: Any) -> Point:
        return Point(np.tile(state.model, (form.n_nodes, 1)))


class Averaging(Rounds, states=("model",)):
    """FedAvg with one local step."""

    def equals(self, weights: Any) -> FedAvg:
        return FedAvg(weights, 1, ETA)

    def p(self, form: Any) -> Array:
        word = self.weights if isinstance(self.weights, str) else ""
        if self.wrong == "uniform" or (self.wrong, word) == ("unknown word", "samples"):
            return np.full(form.n_nodes, 1.0 / form.n_nodes)
        if self.wrong == "or one" and not word:
            shares = np.array([share or 1.0 / form.n_nodes for share in self.weights])
            return shares / shares.sum()
        if (self.wrong, word) == ("first and others", "samples"):
            counts = np.where(np.arange(form.n_nodes) == 0, form.samples[0], form.samples[1])
            return counts / counts.sum()
        return super().p(form)

    def init(self, form: Any, start: Any) -> Any:
        return self.State(self.starting(form, start)[1], 0)

    def step(self, form: Any, state: Any) -> Any:
        y, p = np.tile(state.model, (form.n_nodes, 1)), self.p(form)
        for _ in range(5 if self.wrong == "five steps" else 1):
            y = y - ETA * form.local.gradient(y)
        if self.wrong == "empty devices":
            y = np.where(form.samples[:, None] > 0, y, 0.0)
        if self.wrong == "one generator":
            coins = np.random.default_rng((self.seed, state.round)).random(form.n_nodes) < 0.5
            y = np.where(coins[:, None], y, state.model)
        if self.wrong == "no seed":
            y = y + 1e-3 * np.random.default_rng().normal(size=y.shape)
        return self.State(p @ y, state.round + 1)

    def point(self, form: Any, state: Any) -> Point:
        W = super().point(form, state).W
        return Point(np.column_stack([W, W[:, 0]]) if self.wrong == "shape" else W)

    def traffic(self, form: Any, state: Any) -> Traffic:
        times = state.round if self.wrong == "cumulative" else 1
        return server_traffic(form, np.ones(form.n_nodes), up=times, down=times)


class Controlled(Rounds, states=("model", "c", "c_i", "change")):
    """SCAFFOLD, option II."""

    invariants = ("c = mean c_i",)

    def equals(self, weights: Any) -> Scaffold:
        return Scaffold(weights, STEPS, ETA)

    def init(self, form: Any, start: Any) -> Any:
        W, model, zeros = self.starting(form, start)
        warm = form.local.gradient(W) if self.wrong == "warm controls" and start is not None else zeros
        return self.State(model, zeros[0], warm, zeros[0], 0)

    def step(self, form: Any, state: Any) -> Any:
        x, c, c_i, p = state.model, state.c, state.c_i, self.p(form)
        sign = -1.0 if self.wrong == "sign" else 1.0
        y = np.tile(x, (form.n_nodes, 1))
        for _ in range(STEPS):
            y = y - ETA * (form.local.gradient(y) + sign * (c - c_i))
        fresh = c_i - c + (x - y) / (STEPS if self.wrong == "epochs" else STEPS * ETA)
        change = p @ (fresh if self.wrong == "adds controls" else fresh - c_i)
        news = {"late": state.change, "frozen": 0.0}.get(self.wrong, change)
        return self.State(p @ y, c + news, fresh, change, state.round + 1)


class Proximal(Rounds, states=("model",)):
    """FedProx, exact."""

    solves = "star mu=1"

    def equals(self, weights: Any) -> FedProx:
        return FedProx(weights, MU)

    def init(self, form: Any, start: Any) -> Any:
        return self.State(self.starting(form, start)[1], 0)

    def step(self, form: Any, state: Any) -> Any:
        mu = 2.0 * MU if self.wrong == "mu" else MU
        prox = form.local.prox_operator(np.full(form.n_nodes, 1.0 / mu))
        local = prox(np.tile(state.model, (form.n_nodes, 1)))
        return self.State(self.p(form) @ local, state.round + 1)


class Dynamic(Rounds, states=("model", "h", "g")):
    """FedDyn."""

    invariants = ("h = mean g",)

    def equals(self, weights: Any) -> FedDyn:
        return FedDyn(weights, MU)

    def init(self, form: Any, start: Any) -> Any:
        _, model, zeros = self.starting(form, start)
        return self.State(model, zeros[0], zeros, 0)

    def step(self, form: Any, state: Any) -> Any:
        prox, p = form.local.prox_operator(np.full(form.n_nodes, 1.0 / MU)), self.p(form)
        moved = prox(state.model + state.g / MU) - state.model
        g = (0.0 if self.wrong == "lost term" else state.g) - MU * moved
        h = state.h - MU * p @ moved
        return self.State(state.model + p @ moved - h / MU, h, g, state.round + 1)


class Drifting(Rounds, states=("model", "h", "g")):
    """FedDC in the paper's form."""

    def steps(self) -> int:
        return 1 if self.wrong == "one step" else 20

    def equals(self, weights: Any) -> FedDC:
        return FedDC(weights, MU, self.steps(), ETA)

    def init(self, form: Any, start: Any) -> Any:
        _, model, zeros = self.starting(form, start)
        return self.State(model, zeros, zeros, 0)

    def step(self, form: Any, state: Any) -> Any:
        x, p, sign = state.model, self.p(form), -1.0 if self.wrong == "sign" else 1.0
        correction = sign * (state.g - p @ state.g) / (ETA * self.steps())
        y = np.tile(x, (form.n_nodes, 1))
        for _ in range(self.steps()):
            y = y - ETA * (form.local.gradient(y) + MU * (y - x + state.h) + correction)
        h = state.h + y - x
        return self.State(p @ (y + h), h, y - x, state.round + 1)


class Mixing(Rounds, states=("model", "V", "a")):
    """APFL with a fixed mixture, or with one that adapts."""

    solves = "alone"
    adaptive = False

    def equals(self, weights: Any) -> APFL:
        return APFL(weights, 0.5, 1, ETA, ETA if self.adaptive else None)

    def init(self, form: Any, start: Any) -> Any:
        W, model, _ = self.starting(form, start)
        return self.State(model, W, np.full(form.n_nodes, 0.5), 0)

    def step(self, form: Any, state: Any) -> Any:
        model, V, a = np.tile(state.model, (form.n_nodes, 1)), state.V, state.a[:, None]
        slope = form.local.gradient(a * V + (1.0 - a) * model)
        if self.adaptive and self.wrong != "mixture":
            a = np.clip(a - ETA * np.sum((V - model) * slope, axis=1, keepdims=True), 0.0, 1.0)
        own = V if self.wrong == "own part" else V - ETA * state.a[:, None] * slope
        averaged = self.p(form) @ (model - ETA * form.local.gradient(model))
        return self.State(averaged, own, a[:, 0], state.round + 1)

    def point(self, form: Any, state: Any) -> Point:
        a = state.a[:, None]
        return Point(a * state.V + (1.0 - a) * state.model)


class Adapting(Mixing, states=("model", "V", "a")):
    """APFL with adaptive mixtures, which solves no program."""

    solves = "none"
    adaptive = True


class Envelopes(Rounds, states=("model",)):
    """PFedMe with one local round."""

    solves = "personal star mu=1"

    def equals(self, weights: Any) -> PFedMe:
        return PFedMe(weights, MU, 1, ETA)

    def init(self, form: Any, start: Any) -> Any:
        return self.State(self.starting(form, start)[1], 0)

    def personal(self, form: Any, state: Any) -> Array:
        decay = 1e-3 if self.wrong == "weight decay" else 0.0
        # a decay of d in the loss: prox of f + (d/2)||.||^2 at strength mu is that of f at mu + d, of a shrunk point
        prox = form.local.prox_operator(np.full(form.n_nodes, 1.0 / (MU + decay)))
        return prox(np.tile(state.model * MU / (MU + decay), (form.n_nodes, 1)))

    def step(self, form: Any, state: Any) -> Any:
        local = state.model - ETA * MU * (state.model - self.personal(form, state))
        return self.State(self.p(form) @ local, state.round + 1)

    def point(self, form: Any, state: Any) -> Point:
        return super().point(form, state) if self.wrong == "global model" else Point(self.personal(form, state))
