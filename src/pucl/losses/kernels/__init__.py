"""Ways to compute log Z and its gradient without the matrix of all similarities: tiles in PyTorch, fused in Triton.

Both offer the same two functions over L2-normalised rows, with `first` the place of the first anchor among all rows::

    forward(anchors, rows, first, scale) → lse_i = log Σ_{j ≠ i} exp(scale · a_i · r_j)
    backward(anchors, rows, first, scale, lse, lse_rows, g, g_rows) → Σ_k g_k ∂lse_k/∂a_i

The second sums over *all* rows k, not only those given: row i enters its own log Z and, as a neighbour, that of every
other row. Similarities are symmetric, so one pass over the tiles of row i has both::

    ∂/∂a_i = scale · Σ_{j ≠ i} [g_i exp(s_ij − lse_i) + g_j exp(s_ij − lse_j)] r_j
"""
