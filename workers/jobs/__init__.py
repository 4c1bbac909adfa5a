"""What a node can be asked to do, one module per kind: a request in, facts out. No vendor library, no judgement."""
