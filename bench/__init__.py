"""What things cost, and what rivals cost: `python -m bench NAME`, in a checkout.

A bench is a module with a `BENCH`; how it is measured is the matter of `harness`.
"""
