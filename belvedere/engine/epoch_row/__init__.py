"""Documents in the row of an epoch: each is written by the epoch and read by later ones."""
