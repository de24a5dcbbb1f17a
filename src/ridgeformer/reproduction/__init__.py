"""The paper's experiments: each turns trained models into a result record, which `ridgeformer.report` draws.

`cells` says which models there are, `grid` trains them, `table1` measures them beside the baselines, `claims` holds
what the paper says against the numbers.
"""
