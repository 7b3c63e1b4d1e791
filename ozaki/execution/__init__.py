"""How a product is run: in panels, from captured graphs, as a stack. Never another pipeline."""
