"""ADMM for the network Lasso, in NumPy: a solver to verify."""

import numpy as np

import gtvmin as gtv


def admm(problem, *, gap=1e-6, max_iter=5_000, start=None):
    """Parameters W (n, d) and flows U (m, d) for quadratic losses and the 2-norm; the gap is about the one asked for.

    Z stands for D W: S. Boyd et al., "Distributed Optimization and Statistical Learning via the Alternating Direction
    Method of Multipliers" (2011), DOI 10.1561/2200000016, sections 3.1 to 3.4.
    """
    form, (m, d) = problem.lowered.form, (problem.network.n_edges, problem.dim)
    if problem.penalty != gtv.Norm(2) or form.rows:
        raise NotImplementedError("this solver takes quadratic losses and Norm(2)")
    D, capacity = problem.network.incidence().toarray(), problem.alpha * problem.network.weights[:, None]
    H, b = form.quadratic.quadratic()  # the gradient of device i's loss is H[i] w - b[i]
    rho = np.trace(H.sum(axis=0)) / (d * max(m, 1))
    W = np.zeros(b.shape) if start is None else np.array(start, dtype=float)
    Z, U, inverse = D @ W, np.zeros((m, d)), None
    for k in range(max_iter):
        if inverse is None:
            K = np.kron(rho * D.T @ D, np.eye(d)).reshape(len(b), d, len(b), d)
            K[np.arange(len(b)), :, np.arange(len(b)), :] += H
            inverse = np.linalg.pinv(K.reshape(b.size, b.size), hermitian=True)
        W = (inverse @ (b + D.T @ (rho * Z - U)).ravel()).reshape(b.shape)
        V = D @ W + U / rho
        length = np.linalg.norm(V, axis=1, keepdims=True)
        old, Z = Z, np.maximum(1 - capacity / rho / np.where(length > 0, length, 1), 0) * V
        U = rho * (V - Z)
        primal = np.linalg.norm(D @ W - Z) / max(np.linalg.norm(abs(D) @ abs(W)), 1e-300)
        dual = rho * np.linalg.norm(Z - old) / max(np.linalg.norm(U), 1e-300)
        if max(primal, dual) <= 1e-3 * gap:
            break
        if k in (10, 20, 40, 80, 160, 320) and max(primal, dual) > 2 * min(primal, dual):
            rho, inverse = rho * np.sqrt(np.clip(primal / max(dual, 1e-300), 1e-4, 1e4)), None
    return W, U
