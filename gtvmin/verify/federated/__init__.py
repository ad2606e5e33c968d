"""Checks of federated algorithms: their limits against certified programs, their rounds, states and accounts."""
