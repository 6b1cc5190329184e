"""Pictures, explanations and histories of groups, and what workers say in their commits."""
