"""Stored plans: a network as rows and constants in one file, and back."""

from mdtensor.quant.plans.network import (
    StoredNetwork as StoredNetwork,
    load_plan as load_plan,
)
