"""What the paper defines: the task, the model and what it computes, in NumPy, as the paper writes it."""
