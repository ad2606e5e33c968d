"""Federated algorithms as iterations on arrays: one communication round a step, all devices at once."""
