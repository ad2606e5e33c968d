"""gtvmin: certified convex optimisation over federated-learning networks."""
