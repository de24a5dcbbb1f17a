"""The paper's experiments: its printed numbers, the grid of trained models, Table 1, its claims, and result records.

`cells` says which models there are, `grid` trains them, `table1` measures them beside the baselines, `claims` compares
what the paper says with the numbers, and `measuring` makes the records for figures and page.
"""
